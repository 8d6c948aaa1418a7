// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja.hpp"

#include <array>
#include <string>
#include <utility>

namespace dos::data {
namespace {

constexpr std::string_view kChatml =
    R"({%- if tools %}{{- '<|im_start|>system\n' }}{%- if messages[0].role == 'system' %}
{{- messages[0].content + '\n\n' }}{%- endif %}
{{- '# Tools\n\nYou may call one or more functions to assist with the user )"
    R"(query.\n\nYou are provided with function signatures within <tools></tools> XML )"
    R"(tags:\n<tools>' }}{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}
{%- endfor %}
{{- '\n</tools>\n\nFor each function call, return a json object with function name )"
    R"(and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": )"
    R"(<function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- endif %}{%- for m in messages %}{%- if m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
{{- '<|im_start|>user' }}{%- endif %}
{{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}
{%- endif %}{%- elif m.role == 'assistant' %}{{- '<|im_start|>assistant\n' }}
{{- m.content or '' }}{%- for call in m.tool_calls or [] %}
{%- if m.content or not loop.first %}{{- '\n' }}{%- endif %}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{%- if call.function.arguments is string %}{{- call.function.arguments }}{%- else %}
{{- call.function.arguments | tojson }}{%- endif %}{{- '}\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>' }}{{- '\n' }}
{%- elif not (tools and loop.first and m.role == 'system') %}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{%- endif %}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- endif %}
)";

constexpr std::string_view kLlama3 =
    R"({{- '<|begin_of_text|>' }}
{%- set has_system = messages | length > 0 and messages[0].role == 'system' %}
{%- if has_system or tools %}{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}
{%- if tools %}{{- 'Environment: ipython\n' }}{%- endif %}{%- if has_system %}
{{- messages[0].content | trim }}{%- endif %}{{- '<|eot_id|>' }}{%- endif %}
{%- for m in (messages[1:] if has_system else messages) %}
{%- set role = 'ipython' if m.role == 'tool' else m.role %}
{{- '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}
{%- if tools and loop.first %}
{{- 'Given the following functions, please respond with a JSON for a function call )"
    R"(with its proper arguments that best answers the given prompt.\n\nRespond in the )"
    R"(format {"name": function name, "parameters": dictionary of argument name and its )"
    R"(value}.Do not use variables.\n\n' }}{%- for tool in tools %}
{{- tool | tojson(indent=4) }}{{- '\n\n' }}{%- endfor %}{%- endif %}
{%- if role == 'assistant' %}{%- if m.tool_calls %}
{%- set call = m.tool_calls[0].function %}
{{- '{"name": "' + call.name + '", "parameters": ' }}{{- call.arguments | tojson }}
{{- '}' }}{%- else %}{{- m.content | trim }}{%- endif %}{{- '<|eot_id|>' }}
{%- elif role == 'ipython' %}{{- m.content | tojson }}{{- '<|eot_id|>' }}{%- else %}
{{- m.content | trim + '<|eot_id|>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
)";

constexpr std::string_view kMistral =
    R"({{- '<s>' }}{%- for m in messages %}{%- if m.role == 'system' %}
{{- '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}
{%- elif m.role == 'user' %}{{- '[INST]' + m.content + '[/INST]' }}{%- else %}
{{- m.content + '</s>' }}{%- endif %}{%- endfor %}
)";

constexpr std::string_view kLlama2 =
    R"({%- set has_system = messages | length > 0 and messages[0].role == 'system' %}
{%- for m in (messages[1:] if has_system else messages) %}
{%- if m.role != ('user' if loop.index0 % 2 == 0 else 'assistant') %}
{{- raise_exception('The user and the assistant must take turns.') }}{%- endif %}
{%- if m.role == 'user' %}{%- if has_system and loop.first %}
{%- set content = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' + m.content %}
{%- else %}{%- set content = m.content %}{%- endif %}
{{- '<s>[INST] ' + content | trim + ' [/INST]' }}
{%- else %}{{- ' ' + m.content | trim + ' </s>' }}{%- endif %}{%- endfor %}
)";

constexpr std::string_view kMistralV1 =
    R"({{- '<s>' }}
{%- set has_system = messages | length > 0 and messages[0].role == 'system' %}
{%- for m in (messages[1:] if has_system else messages) %}
{%- if m.role != ('user' if loop.index0 % 2 == 0 else 'assistant') %}
{{- raise_exception('The user and the assistant must take turns.') }}{%- endif %}
{%- if m.role == 'user' %}{{- ' [INST] ' }}{%- if has_system and loop.first %}
{{- messages[0].content + '\n\n' }}{%- endif %}{{- m.content + ' [/INST]' }}
{%- else %}{{- ' ' + m.content + '</s>' }}{%- endif %}{%- endfor %}
)";

constexpr std::string_view kMistralV3 =
    R"({{- '<s>' }}
{%- set has_system = messages | length > 0 and messages[0].role == 'system' %}
{%- for m in (messages[1:] if has_system else messages) %}
{%- if m.role != ('user' if loop.index0 % 2 == 0 else 'assistant') %}
{{- raise_exception('The user and the assistant must take turns.') }}{%- endif %}
{%- if m.role == 'user' %}{{- '[INST] ' }}
{%- if has_system and loop.revindex <= 2 %}
{{- messages[0].content + '\n\n' }}{%- endif %}{{- m.content + '[/INST]' }}
{%- else %}{{- ' ' + m.content | trim + '</s>' }}{%- endif %}{%- endfor %}
)";

constexpr std::array kJinja{
    std::pair("chatml", kChatml),        std::pair("llama-2", kLlama2),
    std::pair("llama-3", kLlama3),       std::pair("mistral-v1", kMistralV1),
    std::pair("mistral-v3", kMistralV3), std::pair("mistral", kMistral)};

}  // namespace

std::optional<std::string_view> jinja_of(const ChatTemplate& chat) {
  for (const auto& [name, jinja] : kJinja)
    if (chat == find_chat_template(name)) return jinja;
  return std::nullopt;
}

std::optional<ChatTemplate> template_of_jinja(std::string_view contents) {
  for (const auto& [name, jinja] : kJinja)
    if (contents == jinja) return find_chat_template(name);
  return std::nullopt;
}

}  // namespace dos::data
