// SPDX-License-Identifier: Apache-2.0
#include "codelets/update_device.hpp"

#include <algorithm>

#include "codelets/update/update_codelet.hpp"

namespace dos::test {
namespace {

/// A guarded array as a handle, filled from it.
template <class T>
class Lent {
 public:
  Lent(rt::Session& session, Guarded<T>& array, DType type)
      : array_(array),
        handle_(session, {.name = "array", .type = type, .count = std::ssize(array.view())}) {
    const rt::HostAccess access(handle_, rt::Mode::kWrite);
    std::copy(array.view().begin(), array.view().end(), access.as<T>().begin());
  }

  [[nodiscard]] const rt::Handle& handle() const { return handle_; }

  void bring_back() {
    const rt::HostAccess access(handle_, rt::Mode::kRead);
    const auto values = access.as<T>();
    std::copy(values.begin(), values.end(), array_.get());
  }

 private:
  Guarded<T>& array_;
  rt::Handle handle_;
};

template <class T>
std::unique_ptr<Lent<T>> lend(rt::Session& session, const std::unique_ptr<Guarded<T>>& array) {
  constexpr DType kType = std::is_same_v<T, BF16> ? DType::kBF16 : DType::kF32;
  return array ? std::make_unique<Lent<T>>(session, *array, kType) : nullptr;
}

}  // namespace

void update_as_task(rt::Submitter& submitter, UpdateData& data, bool in_place) {
  rt::Session& session = submitter.session();
  const auto w = lend(session, data.w);
  const auto g32 = lend(session, data.g32);
  const auto g16 = lend(session, data.g16);
  const rt::Handle clip(session, {.name = "clip", .count = 1});
  rt::HostAccess(clip, rt::Mode::kWrite).as<float>()[0] = data.clip;
  const auto lend_values = [&] {
    std::vector<std::unique_ptr<Lent<float>>> values;
    values.push_back(lend(session, data.p));
    for (const auto& state : data.states) values.push_back(lend(session, state));
    return values;
  };
  const auto values = lend_values();
  std::vector<std::unique_ptr<Lent<float>>> old;
  if (!in_place) old = lend_values();
  const auto states_of = [](const auto& lent) {
    std::vector<const rt::Handle*> states;
    for (std::size_t i = 1; i < lent.size(); ++i) states.push_back(&lent[i]->handle());
    return states;
  };
  const auto states = states_of(values);
  const auto old_states = states_of(old);
  codelets::submit_update(submitter, data.kind.rule, data.step,
                          {.parameters = values.front()->handle(),
                           .states = states,
                           .working = w ? &w->handle() : nullptr,
                           .gradient = g16 ? g16->handle() : g32->handle(),
                           .clip = clip,
                           .old_parameters = in_place ? nullptr : &old.front()->handle(),
                           .old_states = old_states},
                          {});
  for (const auto& each : values) each->bring_back();
  if (w) w->bring_back();
}

}  // namespace dos::test
