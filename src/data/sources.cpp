// SPDX-License-Identifier: Apache-2.0
#include "data/sources.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.hpp"

namespace dos::data {
namespace {

SourceName parse_source(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  const std::size_t last = text.find_last_not_of(' ');
  text = first == text.npos ? "" : text.substr(first, last - first + 1);
  const std::size_t colon = text.rfind(':');
  expect(colon != text.npos && colon > 0,
         "data.sources: '{}' is not PREFIX:WEIGHT; give such as data/books:0.7,data/code:0.3",
         text);
  const std::string_view number = text.substr(colon + 1);
  SourceName source{.prefix = std::string(text.substr(0, colon)), .weight = 0};
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), source.weight);
  expect(error == std::errc() && end == number.data() + number.size() &&
             std::isfinite(source.weight) && source.weight > 0,
         "data.sources: '{}' of {} is no weight; give a positive number", number, source.prefix);
  return source;
}

bool same_tokenizer(const DatasetManifest& a, const DatasetManifest& b) {
  return a.tokenizer == b.tokenizer && a.vocabulary == b.vocabulary &&
         a.model_hash == b.model_hash && a.end_of_text == b.end_of_text;
}

}  // namespace

std::vector<SourceName> parse_sources(const std::string& text) {
  std::vector<SourceName> sources;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != rest.npos;
    SourceName source = parse_source(rest.substr(0, comma));
    const bool is_new =
        std::ranges::none_of(sources, [&](const auto& s) { return s.prefix == source.prefix; });
    expect(is_new, "data.sources: {} stands there twice; add its weights", source.prefix);
    sources.push_back(std::move(source));
    if (more) rest.remove_prefix(comma + 1);
  }
  return sources;
}

Sources open_sources(const std::vector<SourceName>& names) {
  require(!names.empty(), "a training has data");
  Sources sources;
  for (const SourceName& name : names)
    sources.push_back({.name = name, .dataset = open_dataset(name.prefix)});
  const Source* first = described(sources);
  for (const Source& source : sources) {
    if (!source.dataset.manifest) continue;
    expect(same_tokenizer(*source.dataset.manifest, *first->dataset.manifest),
           "data.sources: {} was made with another tokenizer than {}; prepare both with one",
           source.name.prefix, first->name.prefix);
    const auto& chat = source.dataset.manifest->chat;
    expect(!chat || chat->chat_template == chat_of(sources)->chat_template,
           "data.sources: the conversations of {} are written with another chat template than "
           "those of others, '{}'; prepare all with one",
           source.name.prefix, chat ? chat->chat_template.name : "");
  }
  return sources;
}

std::optional<ChatData> chat_of(const Sources& sources) {
  for (const Source& source : sources)
    if (source.dataset.manifest && source.dataset.manifest->chat)
      return source.dataset.manifest->chat;
  return std::nullopt;
}

const Source* described(const Sources& sources) {
  const auto found =
      std::ranges::find_if(sources, [](const Source& s) { return s.dataset.manifest.has_value(); });
  return found == sources.end() ? nullptr : &*found;
}

}  // namespace dos::data
