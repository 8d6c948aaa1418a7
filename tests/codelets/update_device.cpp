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

void update_as_task(rt::Submitter& submitter, UpdateData& data) {
  rt::Session& session = submitter.session();
  const auto p = lend(session, data.p);
  const auto w = lend(session, data.w);
  const auto g32 = lend(session, data.g32);
  const auto g16 = lend(session, data.g16);
  std::vector<std::unique_ptr<Lent<float>>> states;
  std::vector<const rt::Handle*> state_handles;
  for (const auto& state : data.states) {
    states.push_back(lend(session, state));
    state_handles.push_back(&states.back()->handle());
  }
  const rt::Handle clip(session, {.name = "clip", .count = 1});
  rt::HostAccess(clip, rt::Mode::kWrite).as<float>()[0] = data.clip;
  codelets::submit_update(submitter, data.kind.rule, data.step,
                          {.parameters = p->handle(),
                           .states = state_handles,
                           .working = w ? &w->handle() : nullptr,
                           .gradient = g16 ? g16->handle() : g32->handle(),
                           .clip = clip},
                          {});
  p->bring_back();
  if (w) w->bring_back();
  for (const auto& state : states) state->bring_back();
}

}  // namespace dos::test
