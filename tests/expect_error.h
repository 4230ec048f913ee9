// Errors that a test expects: their kind and the words of their message.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {

/// The message of the Error of this kind that the call must throw.
template <class Call>
std::string error_message(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error";
  return {};
}

/// One text, or several in braces.
struct Words {
  std::vector<std::string> all;
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::convertible_to<std::string_view> Text>
  Words(const Text& text) : all{std::string(text)} {}
  Words(std::initializer_list<std::string> texts) : all(texts) {}
  Words(std::vector<std::string> texts) : all(std::move(texts)) {}
  // NOLINTEND(google-explicit-constructor)
};

/// The message has one line.
template <class Call>
void expect_error(ErrorKind kind, const Words& words, const Call& call) {
  const std::string message = error_message(kind, call);
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& text : words.all) {
    EXPECT_NE(message.find(text), std::string::npos) << "no '" << text << "' in: " << message;
  }
}

}  // namespace trireme
