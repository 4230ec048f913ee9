#include "report/help_text.h"

#include <algorithm>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "report/text_style.h"

namespace trireme::report {
namespace {

HelpPage page() {
  return {.description = "Train a model",
          .usage = "trireme train [OPTIONS]",
          .sections = {{"Data",
                        {{"--data VALUE", "a text file, or tokens of two bytes (*.bin)"},
                         {"--a-name-that-is-rather-long VALUE", "any"},
                         {"--json", ""}}},
                       {"Commands", {{"show", "what a plan means"}}}},
          .footer =
              "Examples:\n"
              "  trireme train --data book.txt        any file, one token per byte\n"
              "\n"
              "Ctrl-C finishes the step,\nand saves."};
}

int widest_line(const std::string& text) {
  std::istringstream lines(text);
  int widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, display_width(line));
  }
  return widest;
}

TEST(HelpText, PutsTextNextToNamesAndBelowLongOnes) {
  EXPECT_EQ(help_text(page(), 70),
            "Train a model\n"
            "Usage: trireme train [OPTIONS]\n"
            "\n"
            "Data:\n"
            "  --data VALUE                a text file, or tokens of two bytes\n"
            "                              (*.bin)\n"
            "  --a-name-that-is-rather-long VALUE\n"
            "                              any\n"
            "  --json\n"
            "\n"
            "Commands:\n"
            "  show          what a plan means\n"
            "\n"
            "Examples:\n"
            "  trireme train --data book.txt        any file, one token per byte\n"
            "\n"
            "Ctrl-C finishes the step, and saves.\n");
}

TEST(HelpText, MovesLongDefaultsIntoTheText) {
  const HelpPage long_default{
      .description = "",
      .usage = "",
      .sections = {{"Options",
                    {{"--short VALUE=7", "a number"},
                     {"--list VALUE=one,two,three,four,five,six,seven,eight", "a list"}}}},
      .footer = ""};
  const std::string text = help_text(long_default, 50);
  EXPECT_LE(widest_line(text), 50) << text;
  EXPECT_NE(text.find("--short VALUE=7"), std::string::npos) << text;
  EXPECT_NE(text.find("--list VALUE "), std::string::npos) << text;
  EXPECT_NE(text.find("(default:"), std::string::npos) << text;
}

TEST(HelpText, FitsWidth) {
  for (const int width : {45, 60, 80, 200}) {
    EXPECT_LE(widest_line(help_text(page(), width)), width);
  }
}

TEST(HelpText, BreaksExamplesWithShellContinuation) {
  const HelpPage long_example{
      .description = "d",
      .usage = "u",
      .sections = {},
      .footer = "  trireme plan --model llama3-70b --cluster dgx-h100:8   the fastest\n"};
  EXPECT_EQ(help_text(long_example, 40),
            "d\nUsage: u\n\n"
            "  trireme plan --model llama3-70b \\\n"
            "    --cluster dgx-h100:8\n"
            "      the fastest\n");
}

TEST(HelpText, WrapsRemarksInTheirColumn) {
  const HelpPage remark{.description = "d",
                        .usage = "u",
                        .sections = {},
                        .footer = "  trireme tour   a tour of schedules and of algorithms\n"};
  EXPECT_EQ(help_text(remark, 45),
            "d\nUsage: u\n\n"
            "  trireme tour   a tour of schedules and of\n"
            "                 algorithms\n");
}

TEST(Wrapped, BreaksLongWordsAtCommas) {
  EXPECT_EQ(wrapped("of NUMBER,per-token=K,noise or none", 15),
            (std::vector<std::string>{"of", "NUMBER,", "per-token=K,", "noise or none"}));
  EXPECT_EQ(wrapped("longer-than-that,a,b", 5),
            (std::vector<std::string>{"longer-than-that,", "a,b"}));
  EXPECT_EQ(wrapped("indivisible", 5), (std::vector<std::string>{"indivisible"}));
  EXPECT_TRUE(wrapped("  ", 5).empty());
}

}  // namespace
}  // namespace trireme::report
