// Expects an Error of a kind, with these words in its message.
#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {

template <class Call>
void expect_error(ErrorKind kind, std::string_view words, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no Error; expected one with '" << words << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos)
        << "'" << error.what() << "' does not contain '" << words << "'";
  }
}

}  // namespace trireme
