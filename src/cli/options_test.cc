// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

CommandLine line_of(const char* verb, const std::vector<std::string>& args,
                    const Variables& variables = {}) {
  const auto line =
      parse_command_line(*find_verb(verb), args, [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      });
  EXPECT_TRUE(line.ok()) << line.status().message();
  return *line;
}

GenerateOptions generate_of(std::vector<std::string> args, const Variables& variables = {}) {
  args.insert(args.begin(), {"--model", "m"});
  const auto options = generate_options(line_of("generate", args, variables));
  EXPECT_TRUE(options.ok()) << options.status().message();
  return options.ok() ? *options : GenerateOptions{};
}

std::string generate_error(std::vector<std::string> args, const Variables& variables = {}) {
  args.insert(args.begin(), {"--model", "m"});
  const auto options = generate_options(line_of("generate", args, variables));
  EXPECT_FALSE(options.ok());
  EXPECT_EQ(options.status().code(), StatusCode::kInvalidArgument);
  return options.status().message();
}

TEST(GenerateOptions, BuiltInValues) {
  const GenerateOptions options = generate_of({"--prompt", "x"});
  EXPECT_EQ(options.engine.model, "m");
  EXPECT_EQ(options.engine.load_format, LoadFormat::kSafetensors);
  EXPECT_EQ(options.engine.device, DeviceChoice::kAuto);
  EXPECT_EQ(options.engine.dtype, std::nullopt);
  EXPECT_EQ(options.engine.num_threads, 0);
  EXPECT_EQ(options.engine.max_model_len, 0);
  EXPECT_EQ(options.engine.page_size, 16);
  EXPECT_EQ(options.engine.max_num_seqs, 1);
  EXPECT_EQ(options.sampling.temperature, 0.0f);
  EXPECT_EQ(options.sampling.top_k, 0);
  EXPECT_EQ(options.sampling.top_p, 1.0f);
  EXPECT_EQ(options.sampling.seed, 0u);
  EXPECT_EQ(options.max_tokens, 128);
  EXPECT_FALSE(options.ignore_eos);
  EXPECT_FALSE(options.json);
}

// --help shows the text of the table; giving that text must change nothing.
TEST(GenerateOptions, DefaultsInHelpAreTheBuiltInOnes) {
  std::vector<std::string> args = {"--prompt", "x"};
  for (const OptionSpec& spec : find_verb("generate")->options) {
    if (spec.fallback.empty()) continue;
    args.emplace_back(spec.name);
    args.emplace_back(spec.fallback);
  }
  ASSERT_EQ(args.size(), 2u + 2u * 13u);
  const GenerateOptions spelled = generate_of(args);
  const GenerateOptions built_in = generate_of({"--prompt", "x"});
  EXPECT_EQ(spelled.engine.load_format, built_in.engine.load_format);
  EXPECT_EQ(spelled.engine.device, built_in.engine.device);
  EXPECT_EQ(spelled.engine.dtype, built_in.engine.dtype);
  EXPECT_EQ(spelled.engine.num_threads, built_in.engine.num_threads);
  EXPECT_EQ(spelled.engine.max_model_len, built_in.engine.max_model_len);
  EXPECT_EQ(spelled.engine.page_size, built_in.engine.page_size);
  EXPECT_EQ(spelled.engine.num_pages, built_in.engine.num_pages);
  EXPECT_EQ(spelled.engine.memory_bytes, built_in.engine.memory_bytes);
  EXPECT_EQ(spelled.sampling.temperature, built_in.sampling.temperature);
  EXPECT_EQ(spelled.sampling.top_k, built_in.sampling.top_k);
  EXPECT_EQ(spelled.sampling.top_p, built_in.sampling.top_p);
  EXPECT_EQ(spelled.sampling.seed, built_in.sampling.seed);
  EXPECT_EQ(spelled.max_tokens, built_in.max_tokens);
}

TEST(GenerateOptions, ReadsEveryOption) {
  const GenerateOptions options = generate_of(
      {"--load-format", "dummy",  "--dtype",      "bf16", "--max-model-len", "512",
       "--page-size",   "64",     "--threads",    "2",    "--chat",          "Ge 1:1",
       "--system",      "Be",     "--max-tokens", "9",    "--temperature",   "0.5",
       "--top-k",       "40",     "--top-p",      "0.9",  "--seed",          "18446744073709551615",
       "--ignore-eos",  "--json", "--num-pages",  "77",   "--memory-bytes",  "5000000000",
       "--device",      "cuda"});
  EXPECT_EQ(options.engine.device, DeviceChoice::kCuda);
  EXPECT_EQ(options.engine.num_pages, 77);
  EXPECT_EQ(options.engine.memory_bytes, 5000000000);
  EXPECT_EQ(options.engine.load_format, LoadFormat::kDummy);
  EXPECT_EQ(options.engine.dtype, DType::kBF16);
  EXPECT_EQ(options.engine.max_model_len, 512);
  EXPECT_EQ(options.engine.page_size, 64);
  EXPECT_EQ(options.engine.num_threads, 2);
  EXPECT_TRUE(options.chat);
  EXPECT_EQ(options.prompt.kind, TextSource::Kind::kNone);
  EXPECT_EQ(options.message, "Ge 1:1");
  EXPECT_EQ(options.system, "Be");
  EXPECT_EQ(options.max_tokens, 9);
  EXPECT_EQ(options.sampling.temperature, 0.5f);
  EXPECT_EQ(options.sampling.top_k, 40);
  EXPECT_EQ(options.sampling.top_p, 0.9f);
  EXPECT_EQ(options.sampling.seed, UINT64_MAX);
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_TRUE(options.json);
}

TEST(GenerateOptions, ErrorsNameWhereTheValueCameFrom) {
  const std::vector<std::string> prompt = {"--prompt", "x"};
  const auto error = [&](const std::string& option, const std::string& value) {
    return generate_error({"--prompt", "x", option, value});
  };
  EXPECT_EQ(error("--max-tokens", "ten"), "--max-tokens: 'ten' is not a whole number");
  EXPECT_THAT(error("--max-tokens", "-1"), HasSubstr("--max-tokens: -1 is out of range"));
  EXPECT_THAT(error("--threads", "1.5"), HasSubstr("--threads: '1.5'"));
  EXPECT_THAT(error("--temperature", "0,5"), HasSubstr("point"));
  EXPECT_THAT(error("--temperature", "-0.1"), HasSubstr("0 or more"));
  EXPECT_THAT(error("--top-p", "0"), HasSubstr("more than 0"));
  EXPECT_THAT(error("--top-p", "1.01"), HasSubstr("at most 1"));
  EXPECT_THAT(error("--seed", "-1"), HasSubstr("--seed: '-1'"));
  EXPECT_THAT(error("--dtype", "int8"), HasSubstr("auto, bf16, fp16 or fp32"));
  EXPECT_THAT(error("--device", "gpu"), HasSubstr("auto, cpu or cuda"));
  EXPECT_THAT(error("--load-format", "gguf"), HasSubstr("auto, safetensors or dummy"));
  EXPECT_THAT(generate_error({"--prompt", "x", "--json=maybe"}), HasSubstr("--json: 'maybe'"));
  EXPECT_THAT(generate_error(prompt, {{"HEADRACE_TOP_K", "many"}}),
              HasSubstr("HEADRACE_TOP_K: 'many'"));
}

TEST(GenerateOptions, NeedsAModel) {
  for (const auto& args : {std::vector<std::string>{}, {"--model="}}) {
    const auto options = generate_options(line_of("generate", args));
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(options.status().message(), HasSubstr("HEADRACE_MODEL"));
  }
}

TEST(GenerateOptions, OnePromptSource) {
  EXPECT_EQ(generate_of({}).prompt.kind, TextSource::Kind::kStdin);
  EXPECT_EQ(generate_of({"--prompt-file", "-"}).prompt.kind, TextSource::Kind::kStdin);
  EXPECT_EQ(generate_of({"--prompt-file", "f"}).prompt.kind, TextSource::Kind::kFile);
  EXPECT_EQ(generate_of({"--prompt-file", "f"}).prompt.value, "f");
  EXPECT_EQ(generate_of({"--prompt", "-"}).prompt.kind, TextSource::Kind::kLiteral);
  EXPECT_EQ(generate_error({"--prompt", "a", "--prompt-file", "b"}),
            "--prompt and --prompt-file exclude each other: give one of them");
  EXPECT_THAT(generate_error({"--prompt", "a", "--chat", "b"}), HasSubstr("exclude each other"));
  EXPECT_THAT(generate_error({"--chat", "a", "--prompt-file", "b"}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(generate_error({"--prompt", "a", "--system", "b"}), HasSubstr("--chat"));
}

TEST(GenerateOptions, FlagsHidePromptsOfTheEnvironment) {
  const Variables exported = {{"HEADRACE_PROMPT", "env"}, {"HEADRACE_SYSTEM", "sys"}};
  EXPECT_EQ(generate_of({}, exported).prompt.value, "env");
  const GenerateOptions chat = generate_of({"--chat", "hi"}, exported);
  EXPECT_TRUE(chat.chat);
  EXPECT_EQ(chat.message, "hi");
  EXPECT_EQ(chat.system, "sys");
  EXPECT_EQ(generate_of({"--prompt-file", "f"}, exported).prompt.kind, TextSource::Kind::kFile);
  EXPECT_THAT(generate_error({}, {{"HEADRACE_PROMPT", "a"}, {"HEADRACE_CHAT", "b"}}),
              HasSubstr("HEADRACE_PROMPT and HEADRACE_CHAT"));
}

TEST(TokenizeOptions, TextFileOrIds) {
  const auto of = [](std::vector<std::string> args, const Variables& variables = {}) {
    args.insert(args.begin(), {"--model", "m"});
    const auto options = tokenize_options(line_of("tokenize", args, variables));
    EXPECT_TRUE(options.ok()) << options.status().message();
    return *options;
  };
  EXPECT_EQ(of({}).input.kind, TextSource::Kind::kStdin);
  EXPECT_FALSE(of({}).decode);
  EXPECT_EQ(of({"text"}).input.value, "text");
  EXPECT_EQ(of({"--prompt-file", "f"}).input.kind, TextSource::Kind::kFile);
  EXPECT_TRUE(of({"--ids", "1 2"}).decode);
  EXPECT_EQ(of({"--ids", "1 2"}).input.value, "1 2");
  EXPECT_EQ(of({"--ids", "-"}).input.kind, TextSource::Kind::kStdin);
  EXPECT_EQ(of({"text"}, {{"HEADRACE_IDS", "1"}}).input.value, "text");
  EXPECT_TRUE(of({}).add_special_tokens);
  EXPECT_TRUE(of({}).parse_special_tokens);
  EXPECT_FALSE(of({}).skip_special_tokens);
  const TokenizeOptions switched =
      of({"--no-add-special-tokens", "--no-parse-special-tokens", "--skip-special-tokens"});
  EXPECT_FALSE(switched.add_special_tokens);
  EXPECT_FALSE(switched.parse_special_tokens);
  EXPECT_TRUE(switched.skip_special_tokens);

  for (const auto& args : {std::vector<std::string>{"--model", "m", "text", "--ids", "1"},
                           {"--model", "m", "text", "--prompt-file", "f"},
                           {"--model", "m", "--ids", "1", "--prompt-file", "f"}}) {
    const auto options = tokenize_options(line_of("tokenize", args));
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(options.status().message(), HasSubstr("exclude each other"));
  }
}

TEST(ParseTokenIds, TakesTheUsualSpellings) {
  EXPECT_THAT(*parse_token_ids(""), IsEmpty());
  EXPECT_THAT(*parse_token_ids(" \n"), IsEmpty());
  EXPECT_THAT(*parse_token_ids("[]"), IsEmpty());
  EXPECT_THAT(*parse_token_ids("1 2 3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*parse_token_ids("1,2,\n3\n"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*parse_token_ids(" [1, 2, 2147483647]\n"), ElementsAre(1, 2, INT32_MAX));
  EXPECT_THAT(parse_token_ids("1 x 3").status().message(), HasSubstr("number 2: 'x'"));
  EXPECT_FALSE(parse_token_ids("-1").ok());
  EXPECT_FALSE(parse_token_ids("2147483648").ok());
  EXPECT_FALSE(parse_token_ids("[1, 2").ok());
}

}  // namespace
}  // namespace headrace::cli
