// Expectations shared by the tests of commands.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"

namespace trireme {

/// Invalid input: nothing on standard output, one line on standard error that contains these words, exit code 2.
inline void expect_refused(const std::string& arguments, const std::vector<std::string>& words) {
  const Ran ran = run_program(arguments);
  EXPECT_EQ(ran.exit_code, 2) << arguments << "\n" << ran.out << ran.err;
  EXPECT_EQ(ran.out, "") << arguments;
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << arguments << "\n" << ran.err;
  for (const std::string& word : words) {
    EXPECT_NE(ran.err.find(word), std::string::npos) << arguments << "\n" << ran.err;
  }
}

/// A command line that is refused, and words of its error.
struct RefusedCase {
  const char* arguments;
  const char* words;
};

/// Its output, parsed as JSON.
inline Json json_of(const std::string& arguments) {
  const Ran ran = run_program(arguments);
  EXPECT_EQ(ran.exit_code, 0) << arguments << "\n" << ran.err;
  return parse_json(ran.out, "output");
}

}  // namespace trireme
