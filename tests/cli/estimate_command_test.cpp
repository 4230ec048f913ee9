#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/program.h"
#include "cli/program_says.h"
#include "report/text_style.h"
#include "trireme/estimate_examples.h"

namespace trireme {
namespace {

Json estimated(const std::string& arguments) {
  const Ran ran = run_program("estimate --json " + arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return parse_json(ran.out, "output");
}

void expect_text(const std::string& arguments, const std::vector<std::string>& texts) {
  const Ran ran = run_program("estimate " + arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const std::string& text : texts) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
}

void expect_no_estimate(const std::string& arguments, const std::string& text) {
  expect_refused("estimate " + arguments, {text});
}

TEST(EstimateCommand, ShowsEveryPart) {
  expect_text("--model gpt2-small --batch 8 --device h100",
              {"124.4 M", "989.4 TFLOP/s (bf16, dense)", "above 295 FLOP/byte",
               "matmul 8192x768x3072", "7.000 T  3 forwards", "at best", "fused"});
}

TEST(EstimateCommand, FitsHundredColumns) {
  std::vector<std::string> commands{"--model gpt2-small --batch 8 --step-time 50ms --tokens 1e12",
                                    "--model llama4-maverick --device b200 --devices 1024",
                                    "--example list"};
  for (const Example& example : all_examples()) {
    commands.push_back("--example " + example.name);
  }
  for (const std::string& command : commands) {
    const std::string out = run_program("estimate " + command).out;
    for (const std::string_view line : split(out, '\n')) {
      EXPECT_LE(report::display_width(line), 100) << command << ": " << line;
    }
  }
}

TEST(EstimateCommand, DerivesMfuInFourSteps) {
  const Json json = estimated("--model gpt2-small --batch 64 --device h200 --step-time 123.2ms");
  EXPECT_NEAR(json.at("utilization").at("mfu").get<double>(), 0.4594, 1e-3);
  EXPECT_EQ(json.at("flops").at("training_per_token").at("model"), 854438400.0);
  EXPECT_EQ(json.at("parameters").at("total"), 124439808);
}

/// Eight devices with a batch each have eight times the peak, so the MFU does not change.
TEST(EstimateCommand, EachDeviceProcessesItsOwnBatch) {
  const Json one = estimated("-m gpt-mini --step-time 1ms");
  const Json eight = estimated("-m gpt-mini --step-time 1ms --devices 8");
  EXPECT_EQ(one.at("utilization").at("mfu"), eight.at("utilization").at("mfu"));
  EXPECT_EQ(8 * one.at("utilization").at("tokens_per_second").get<double>(),
            eight.at("utilization").at("tokens_per_second").get<double>());
}

TEST(EstimateCommand, SaysWhetherMfuIsTypical) {
  expect_text("--batch 8 --step-time 18ms", {"yes, typical", "30 to 50 %"});
  expect_text("--batch 8 --step-time 300ms", {"below what is typical"});
  expect_text("--batch 8 --step-time 1ms", {"impossible, above the peak"});
  expect_text("--batch 8 --step-time 18ms --device h200", {"no figures for h200"});
}

TEST(EstimateCommand, UnknownPeakStaysUnknown) {
  expect_text("-m gpt-mini --device cpu --step-time 1s",
              {"peak unknown", "no times are shown", "MFU              unknown"});
  const Json json = estimated("-m gpt-mini --device v100 --step-time 1s");  // no bf16
  EXPECT_TRUE(json.at("peak_flops_per_second").is_null());
  EXPECT_TRUE(json.at("utilization").at("mfu").is_null());
  EXPECT_TRUE(json.at("roofline").at("seconds").is_null());
}

TEST(EstimateCommand, RecomputationRaisesOnlyHfu) {
  const Json none = estimated("--batch 8 --step-time 20ms");
  const Json full = estimated("--batch 8 --step-time 20ms --recompute full");
  EXPECT_EQ(none.at("utilization").at("mfu"), full.at("utilization").at("mfu"));
  EXPECT_LT(none.at("utilization").at("hfu"), full.at("utilization").at("hfu"));
  EXPECT_GT(none.at("memory").at("kept_bytes"), full.at("memory").at("kept_bytes"));
}

TEST(EstimateCommand, SizesOverrideModel) {
  const Json medium = estimated("--layers 24 --width 1024 --heads 16");
  EXPECT_EQ(medium.at("parameters"), estimated("--model gpt2-medium").at("parameters"));
  EXPECT_EQ(estimated("-m llama-tiny --experts 8 --experts-per-token 2 --length 64")
                .at("parameters")
                .at("routers"),
            4 * 8 * 128);
  EXPECT_EQ(estimated("-m gpt-mini --length 512").at("length"), 512);
}

TEST(EstimateCommand, EstimatesRunTimeInDays) {
  const Json run = estimated(
                       "-m gpt3-175b --length 2048 --tokens 300e9 --mfu 0.4 --devices 1024 "
                       "--device a100 --layers 1")
                       .at("run");
  EXPECT_NEAR(run.at("seconds").get<double>(),
              run.at("flops").get<double>() / (0.4 * 1024 * 312e12), 1e-3);
}

TEST(EstimateCommand, MixturesWithoutGraphGetRecipes) {
  const Json json = estimated("--model llama4-maverick");
  EXPECT_EQ(json.at("memory").at("recipes").at(0).at("bytes_per_parameter"), 16);
  EXPECT_TRUE(json.at("roofline").at("ops").empty());
  EXPECT_EQ(json.at("flops").at("hardware_is"), "formula");
}

/// An eighth of 256 tokens. The formulas of a dense model do not apply, so they are not shown.
TEST(EstimateCommand, ShowsPickedTokens) {
  expect_text("--model depths-mini --length 256", {"one layer in 2 works on 32 of 256 tokens"});
  EXPECT_EQ(run_program("estimate --model depths-mini").out.find("8h²L"), std::string::npos);
}

TEST(EstimateCommand, ShowsExamples) {
  expect_text("--example list", {"  intensity         Arithmetic", "  dbrx "});
  expect_text("--example maverick", {"17.17 B", "400.7 B", "14.15 B"});
  expect_text("--example GPT4", {"281.7 years", "2858 B200"});
  expect_text("--example opt", {"760M         4.3E+15      35      44          14.8       5.8",
                                "175B        3.01E+18    32.3    64.7           2.7       0.3"});
  EXPECT_EQ(parse_json(run_program("estimate --json --example list").out, "output").size(),
            all_examples().size());
  EXPECT_EQ(estimated("--example mfu").at("results").at(0).at("value"), 0.01);
}

TEST(EstimateCommand, SetsExampleInputs) {
  expect_text("--example zero", {"31.4 GB", "1.88 GB", "devices     N, along data  64"});
  expect_text("--example zero --set devices=1 --set parameters=1e9", {"16 GB"});
  const Json json = estimated("--example stragglers --set workers=64");
  EXPECT_NEAR(json.at("results").at(0).at("value").get<double>(), 0.474, 5e-4);
  EXPECT_EQ(json.at("given").at(1).at("input"), "workers");
}

TEST(EstimateCommand, RejectsUnknownExampleInputs) {
  expect_no_estimate("--example zero --set device=1",
                     "--set: example zero has no input 'device'; it has parameters and devices");
  expect_no_estimate("--example zero --set devices=0",
                     "--set: devices: invalid value 0: expected an");
  expect_no_estimate("--example zero --set devices=1.5", "expected an integer from 1");
  expect_no_estimate("--example zero --set devices=nan", "invalid value nan");
  expect_no_estimate("--example zero --set devices=", "expected NAME=NUMBER");
  expect_no_estimate("--example zero --set devices", "expected NAME=NUMBER");
  expect_no_estimate("--example zero --set devices=1 --set devices=2", "'devices' is set twice");
  expect_no_estimate("--example peaks --set a=1", "--set: example peaks has no inputs to set");
  expect_no_estimate("--set a=1", "--example");
}

TEST(EstimateCommand, ErrorsSuggestFix) {
  expect_no_estimate("--model gpt2-smal", "unknown model 'gpt2-smal'; did you mean gpt2-small?");
  expect_no_estimate("--device h10", "unknown device 'h10'; did you mean h100?");
  expect_no_estimate("--dtype i8", "models are not trained in i8");
  expect_no_estimate("--recompute some", "use none, selective or full");
  expect_no_estimate("--optimizer adam7", "unknown optimizer 'adam7'; did you mean adamw?");
  expect_no_estimate("--optimizer x", "use adamw, sgd, momentum, adagrad, lion or muon");
  expect_no_estimate("--family t5", "use gpt2 or llama");
  expect_no_estimate("--heads 7", "7 heads cannot share a width of 768");
  expect_no_estimate("--context 8 --length 9", "more than the context");
  expect_no_estimate("--step-time 0s", "must be more than 0");
  expect_no_estimate("--shared-experts 1", "shared experts need more than one expert");
  expect_no_estimate("--example speed-of-light",
                     "unknown example 'speed-of-light'; use intensity, mfu");
}

TEST(EstimateCommand, LongSequencesTakeNoLonger) {
  const Ran ran = run_program("estimate --model gpt2-small --length 1000000000");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
}

}  // namespace
}  // namespace trireme
