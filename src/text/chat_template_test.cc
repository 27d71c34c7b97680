// SPDX-License-Identifier: Apache-2.0
// Chat templates against jinja2 (testdata/make_chat_templates.py) and the demo model's golden
// chats, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "headrace/tokenizer.h"
#include "tests/support/paths.h"
#include "tests/support/scale.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace headrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

std::vector<ChatMessage> to_messages(const json& list) {
  std::vector<ChatMessage> messages;
  for (const json& item : list) {
    messages.push_back({item["role"].get<std::string>(), item["content"].get<std::string>()});
  }
  return messages;
}

// A model folder of its own, removed at the end.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("chat_template_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder& write(const std::string& name, const std::string& content) {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Result<std::shared_ptr<const ChatTemplate>> load_source(const std::string& source) {
  return ChatTemplate::load(Folder().write("chat_template.jinja", source).path());
}

TEST(ChatTemplate, RendersWhatJinjaRenders) {
  const json golden = read_json(test::source_dir() + "/src/text/testdata/chat_templates.json");
  ASSERT_FALSE(golden["cases"].empty());
  for (const json& item : golden["cases"]) {
    SCOPED_TRACE(item["name"]);
    const auto chat = load_source(item["template"].get<std::string>());
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    size_t index = 0;
    for (const json& conversation : golden["conversations"]) {
      for (const bool prompt : {false, true}) {
        const auto text = (*chat)->render(to_messages(conversation), prompt);
        ASSERT_TRUE(text.ok()) << text.status().message();
        EXPECT_EQ(*text, item["outputs"][index++].get<std::string>());
      }
    }
    EXPECT_EQ(index, item["outputs"].size());
  }
}

TEST(ChatTemplate, DemoModelChatsBecomeTheGoldenIds) {
  const auto chat = ChatTemplate::load(test::demo_model_dir());
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  const auto tokenizer = Tokenizer::load(test::demo_model_dir());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const json golden = read_json(test::golden_dir() + "/demo/golden.json");
  ASSERT_FALSE(golden["chat"].empty());
  for (const json& item : golden["chat"]) {
    const auto text = (*chat)->render({{"user", item["user"].get<std::string>()}}, true);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, item["rendered"].get<std::string>());
    EXPECT_EQ(*(*tokenizer)->encode(*text), item["ids"].get<std::vector<int32_t>>());
  }
}

TEST(ChatTemplate, RefusesByConstructAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% macro f() %}{% endmacro %}", "\"macro\""},
      {"{% raw %}x{% endraw %}", "\"raw\""},
      {"{% set x %}a{% endset %}", "\"set\" without \"=\""},
      {"{% set ns.x = 1 %}", "setting an attribute"},
      {"{% set a, b = 1 %}", "more than one variable"},
      {"{% for a, b in messages %}{% endfor %}", "more than one variable"},
      {"{% for a in messages if a %}{% endfor %}", "\"a if b else c\""},
      {"{% for a in messages recursive %}{% endfor %}", "recursive"},
      {"{% for a in messages %}{{ loop }}{% endfor %}", "\"loop\" without"},
      {"{% for a in messages %}{{ loop.previtem }}{% endfor %}", "\"loop.previtem\""},
      {"{{ bos_token }}", "the variable \"bos_token\""},
      {"{{ raise_exception('x') }}", "the function \"raise_exception\""},
      {"{{ messages[0].content.strip() }}", "the method \"strip\""},
      {"{{ messages[1:] }}", "a slice"},
      {"{{ messages[:1] }}", "a slice"},
      {"{{ messages | length }}", "the filter \"length\""},
      {"{{ 'x' | trim('y') }}", "an argument of \"trim\""},
      {"{{ messages is defined }}", "the test \"is\""},
      {"{{ 'a' in messages }}", "\"in\""},
      {"{{ 'a' not in messages }}", "\"not\""},
      {"{{ 1 < 2 }}", "\"<\""},
      {"{{ 1 - 2 }}", "\"-\""},
      {"{{ 2 * 2 }}", "\"*\""},
      {"{{ 1.5 }}", "a number"},
      {"{{ 99999999999999999999 }}", "64 bits"},
      {"{{ 'a' if true else 'b' }}", "\"a if b else c\""},
      {"{{ [1] }}", "a list"},
      {"{{ {'a': 1} }}", "a dictionary"},
      {"{{ (1, 2) }}", "a tuple"},
      {"{{ 1, 2 }}", "a tuple"},
      {"{{ '\\N{BULLET}' }}", "\\N"},
  };
  for (const auto& [source, construct] : cases) {
    const auto chat = load_source("one\ntwo\n" + std::string(source));
    ASSERT_FALSE(chat.ok()) << source;
    EXPECT_EQ(chat.status().code(), StatusCode::kUnsupported) << chat.status().message();
    EXPECT_THAT(chat.status().message(), HasSubstr(construct));
    EXPECT_THAT(chat.status().message(), HasSubstr("line 3"));
    EXPECT_THAT(chat.status().message(), HasSubstr("chat_template.jinja"));
  }
}

TEST(ChatTemplate, SaysWhatIsWrongWithTheSyntax) {
  for (const char* source : {"{{ 'x' ",
                             "{% if true %}",
                             "{% for m in messages %}{% endif %}",
                             "{% endif %}",
                             "{{ }}",
                             "{% %}",
                             "{{ 'x",
                             "{# x",
                             "{% if %}x{% endif %}",
                             "{{ 'a' 1 }}",
                             "{{ (1 }}",
                             "{{ a. }}",
                             "{% for in messages %}{% endfor %}",
                             "{% for true in messages %}{% endfor %}",
                             "{{ '\\xZZ' }}",
                             "{{ '\\u12' }}",
                             "{{ ? }}",
                             "{% set x = %}",
                             "{% else %}",
                             "{{ 1 }",
                             "{% if true %}{% else %}{% elif true %}{% endif %}",
                             "{{ messages[0 }}",
                             "{{ 1 | }}"}) {
    const auto chat = load_source(source);
    ASSERT_FALSE(chat.ok()) << source;
    EXPECT_THAT(chat.status().message(), HasSubstr("line 1")) << source;
  }
}

TEST(ChatTemplate, NestingIsBounded) {
  const auto repeat = [](const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  for (const std::string& source :
       {"{{ " + repeat("(", 100000) + "1" + repeat(")", 100000) + " }}",
        "{{ messages" + repeat("[0]", 100000) + " }}", "{{ messages" + repeat(".a", 100000) + " }}",
        "{{ 'a'" + repeat("|trim", 100000) + " }}", repeat("{% if true %}", 100000)}) {
    EXPECT_FALSE(load_source(source).ok());
  }
  // Chains do not nest.
  const auto sum = load_source("{{ 'a'" + repeat(" + 'b'", 50000) + " }}");
  ASSERT_TRUE(sum.ok()) << sum.status().message();
  EXPECT_EQ((*sum)->render({}, false)->size(), 50001u);
  const auto nots = load_source("{{ " + repeat("not ", 50001) + "true }}");
  ASSERT_TRUE(nots.ok()) << nots.status().message();
  EXPECT_EQ(*(*nots)->render({}, false), "False");
}

TEST(ChatTemplate, WorkIsBounded) {
  const auto block = text::jinja::parse_template(
      "{% for a in m %}{% for b in m %}{{ 'xxxxxxxxxx' }}{% endfor %}{% endfor %}", {"m"});
  ASSERT_TRUE(block.ok()) << block.status().message();
  const text::jinja::Map variables{
      {"m", text::jinja::Value(text::jinja::List(1000, text::jinja::Value()))}};
  text::jinja::RenderLimits limits;
  limits.max_steps = 1000;
  const auto steps = text::jinja::render(*block, variables, limits);
  EXPECT_EQ(steps.status().code(), StatusCode::kResourceExhausted);
  limits = {};
  limits.max_output_bytes = 1000;
  const auto output = text::jinja::render(*block, variables, limits);
  EXPECT_EQ(output.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(text::jinja::render(*block, variables)->size(), 10'000'000u);
}

TEST(ChatTemplate, SaysWhatIsWrongWithTheInput) {
  const auto missing = load_source("{{ messages[0].foo.bar }}");
  ASSERT_TRUE(missing.ok());
  const auto text = (*missing)->render({{"user", "x"}}, false);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.status().message(), HasSubstr("line 1: \"foo\" is undefined"));
  const auto sum = load_source("{{ messages[0].foo + 'x' }}");
  EXPECT_FALSE((*sum)->render({{"user", "x"}}, false).ok());
  const auto mixed = load_source("{{ 'x' + 1 }}");
  EXPECT_FALSE((*mixed)->render({}, false).ok());
  const auto list = load_source("{{ messages }}");
  EXPECT_EQ((*list)->render({}, false).status().code(), StatusCode::kUnsupported);
  const auto chat = ChatTemplate::load(test::demo_model_dir());
  const auto invalid = (*chat)->render({{"user", "ok"}, {"user", "ab\xFF"}}, true);
  ASSERT_FALSE(invalid.ok());
  EXPECT_THAT(invalid.status().message(), HasSubstr("message 1 is not valid UTF-8 at byte 2"));
}

TEST(ChatTemplate, IsFoundWhereModelsKeepIt) {
  const std::string config = R"({"chat_template": "from config"})";
  const auto render = [](const Folder& folder) {
    return *(*ChatTemplate::load(folder.path()))->render({}, false);
  };
  EXPECT_EQ(render(Folder().write("tokenizer_config.json", config)), "from config");
  EXPECT_EQ(
      render(Folder().write("tokenizer_config.json", config).write("chat_template.jinja", "x")),
      "x");
  EXPECT_EQ(render(Folder().write("tokenizer_config.json",
                                  R"({"chat_template": [{"name": "tool", "template": "t"},
                                      {"name": "default", "template": "d"}]})")),
            "d");
  const auto code = [](const Folder& folder) {
    return ChatTemplate::load(folder.path()).status().code();
  };
  EXPECT_EQ(code(Folder()), StatusCode::kNotFound);
  EXPECT_EQ(code(Folder().write("tokenizer_config.json", "{}")), StatusCode::kNotFound);
  EXPECT_EQ(code(Folder().write("tokenizer_config.json", "{")), StatusCode::kInvalidData);
  EXPECT_EQ(code(Folder().write("tokenizer_config.json", R"({"chat_template": 1})")),
            StatusCode::kInvalidData);
  EXPECT_EQ(code(Folder().write("chat_template.jinja", "\xFF")), StatusCode::kInvalidData);
}

TEST(ChatTemplate, RandomTemplatesNeverCrash) {
  const std::vector<std::string> parts = {"{%",
                                          "%}",
                                          "{{",
                                          "}}",
                                          "{#",
                                          "#}",
                                          "-",
                                          "+",
                                          " ",
                                          "\n",
                                          "for",
                                          "m",
                                          "in",
                                          "messages",
                                          "if",
                                          "elif",
                                          "else",
                                          "endif",
                                          "endfor",
                                          "set",
                                          "=",
                                          "==",
                                          "!=",
                                          "not",
                                          "and",
                                          "or",
                                          "loop",
                                          ".",
                                          "first",
                                          "role",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "'",
                                          "\"",
                                          "\\",
                                          "x",
                                          "0",
                                          "1",
                                          "|",
                                          "trim",
                                          "~",
                                          "é",
                                          "true",
                                          "{% if m %}",
                                          "{% endif %}",
                                          "{% for m in messages %}",
                                          "{% endfor %}",
                                          "{{ m.role }}"};
  std::mt19937 random(3);
  int loaded = 0;
  for (int i = 0; i < test::scaled(50000); ++i) {
    std::string source;
    const int count = static_cast<int>(random() % 15);
    for (int k = 0; k < count; ++k) source += parts[random() % parts.size()];
    const auto block = text::jinja::parse_template(source, {"messages"});
    if (!block.ok()) {
      EXPECT_FALSE(block.status().message().empty());
      continue;
    }
    ++loaded;
    const text::jinja::Map message{{"role", text::jinja::Value(std::string("user"))}};
    (void)text::jinja::render(
        *block,
        {{"messages", text::jinja::Value(text::jinja::List(2, text::jinja::Value(message)))}});
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace headrace
