// SPDX-License-Identifier: Apache-2.0
// ChatTemplate: finds a model folder's template and gives it its variables; the language itself is
// jinja/'s business.
#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <utility>

#include "headrace/tokenizer.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/json_access.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace headrace {
namespace {

namespace jinja = text::jinja;
namespace json = text::json;

class JinjaChatTemplate final : public ChatTemplate {
 public:
  explicit JinjaChatTemplate(jinja::Block block) : block_(std::move(block)) {}

  Result<std::string> render(const std::vector<ChatMessage>& messages,
                             bool add_generation_prompt) const override {
    try {
      jinja::List list;
      list.reserve(messages.size());
      for (const ChatMessage& message : messages) {
        for (const std::string* field : {&message.role, &message.content}) {
          if (const size_t at = text::find_invalid_utf8(*field); at != std::string::npos) {
            return invalid_argument(
                fmt::format("message {} is not valid UTF-8 at byte {} of its {}", list.size(), at,
                            field == &message.role ? "role" : "content"));
          }
        }
        list.emplace_back(jinja::Map{{"role", jinja::Value(message.role)},
                                     {"content", jinja::Value(message.content)}});
      }
      return jinja::render(block_,
                           {{"messages", jinja::Value(std::move(list))},
                            {"add_generation_prompt", jinja::Value(add_generation_prompt)}});
    } catch (const std::bad_alloc&) {
      return resource_exhausted("no memory to render the chat template; shorten the conversation");
    }
  }

 private:
  jinja::Block block_;
};

// The template in a tokenizer_config.json: a string, or a list of named ones.
Result<std::string> template_in_config(const std::string& content) {
  simdjson::dom::parser parser;
  json::element document;
  if (parser.parse(content).get(document) != simdjson::SUCCESS) {
    return invalid_data("not valid JSON; download the file again");
  }
  HEADRACE_ASSIGN_OR_RETURN(const json::Object root, json::as_object(document, ""));
  if (!root.has("chat_template")) return not_found("no \"chat_template\"");
  json::array named;
  if (root.find("chat_template")->get(named) != simdjson::SUCCESS) {
    HEADRACE_ASSIGN_OR_RETURN(const std::string_view source, root.get_string("chat_template"));
    return std::string(source);
  }
  for (const json::element element : named) {
    HEADRACE_ASSIGN_OR_RETURN(const json::Object entry,
                              json::as_object(element, "chat_template[]"));
    HEADRACE_ASSIGN_OR_RETURN(const std::string_view name, entry.get_string("name"));
    HEADRACE_ASSIGN_OR_RETURN(const std::string_view source, entry.get_string("template"));
    if (name == "default") return std::string(source);
  }
  return not_found("\"chat_template\" has none that is named \"default\"");
}

struct Source {
  std::string path;
  std::string content;
};

Result<Source> find_source(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path file = folder / "chat_template.jinja";
  if (std::filesystem::exists(file, ignored)) {
    HEADRACE_ASSIGN_OR_RETURN(std::string content, text::read_text_file(file));
    return Source{file.string(), std::move(content)};
  }
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(config, ignored)) {
    HEADRACE_ASSIGN_OR_RETURN(const std::string content, text::read_text_file(config));
    auto found = template_in_config(content);
    if (found.ok()) return Source{config.string(), std::move(found).value()};
    if (found.status().code() != StatusCode::kNotFound) {
      return found.status().with_context(config.string());
    }
  }
  return not_found(
      fmt::format("{} has no chat template (chat_template.jinja, or \"chat_template\" "
                  "in tokenizer_config.json); send a plain prompt instead",
                  folder.string()));
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::load(const std::string& folder) {
  try {
    HEADRACE_ASSIGN_OR_RETURN(const Source source, find_source(folder));
    if (const size_t at = text::find_invalid_utf8(source.content); at != std::string::npos) {
      return invalid_data(fmt::format("{}: not valid UTF-8 at byte {}", source.path, at));
    }
    auto block = jinja::parse_template(source.content, {"messages", "add_generation_prompt"});
    if (!block.ok()) return block.status().with_context(source.path);
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<JinjaChatTemplate>(std::move(block).value()));
  } catch (const std::bad_alloc&) {
    return resource_exhausted(folder + ": no memory to load the chat template");
  }
}

}  // namespace headrace
