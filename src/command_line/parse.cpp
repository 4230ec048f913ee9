#include "command_line/parse.h"

#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "trireme/message.h"

namespace trireme::cli {
namespace {

/// The names of the options, with their dashes.
std::vector<std::string> option_names(const CLI::App& parser) {
  std::vector<std::string> names;
  for (const CLI::Option* option : parser.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

/// "unknown option '--stpes'; did you mean --steps?", "unknown command 'shwo'; …", or "" if every argument was
/// understood.
std::string unknown_argument(const Command& command) {
  const std::vector<std::string> unknown = command.parser().remaining();
  if (unknown.empty()) {
    return {};
  }
  const std::string name = unknown.front().substr(0, unknown.front().find('='));
  if (name.starts_with('-')) {
    return fmt::format("unknown option {}{}", in_quotes(name),
                       did_you_mean(name, option_names(command.parser())));
  }
  if (!command.parser().get_subcommands({}).empty()) {
    (void)command.subcommand(
        name);  // throws: were there such a command, it would have been taken for one
  }
  return fmt::format("unexpected argument {}", in_quotes(name));
}

/// What kind of number an option expects, given a value that cannot be converted.
std::string conversion_problem(const std::string& value) {
  std::size_t used = 0;
  try {
    (void)std::stod(value, &used);
  } catch (const std::logic_error&) {
    used = 0;
  }
  if (used == 0 || used != value.size()) {
    return "expected a number";
  }
  return value.find_first_not_of("+-0123456789") == std::string::npos ? "out of range"
                                                                      : "expected an integer";
}

/// "--batch: invalid value '1.5': expected an integer" in place of the parser's conversion error.
std::string plain_message(const std::string& message) {
  constexpr std::string_view kConversion = "Could not convert: ";
  const std::size_t equals = message.find(" = ");
  if (!message.starts_with(kConversion) || equals == std::string::npos) {
    return message;
  }
  const std::string value = message.substr(equals + 3);
  return message.substr(kConversion.size(), equals - kConversion.size()) + ": invalid value '" +
         value + "': " + conversion_problem(value);
}

/// Whether the message is "NAME MIDDLE REST"; then its two ends.
std::optional<std::pair<std::string, std::string>> split_at(const std::string& message,
                                                            std::string_view middle) {
  const std::size_t at = message.find(middle);
  return at == std::string::npos
             ? std::nullopt
             : std::optional(std::pair(message.substr(0, at), message.substr(at + middle.size())));
}

/// The parser's other messages, in this program's words.
std::string own_message(const CLI::ParseError& error) {
  const std::string message = error.what();
  if (const auto repeated = split_at(message, ": At Most 1 required but received ")) {
    return fmt::format("{} is given {} times; give it once", repeated->first, repeated->second);
  }
  if (const auto value = split_at(message, ": 1 required ")) {
    return fmt::format("{} needs a value", value->first);
  }
  if (message.starts_with("A subcommand is required")) {
    return "missing command";
  }
  if (const auto missing = split_at(message, " is required")) {
    const bool option = missing->first.starts_with('-');
    return fmt::format("missing {} {}", option ? "option" : "argument", missing->first);
  }
  if (const auto both = split_at(message, " excludes ")) {
    return fmt::format("{} and {} exclude each other; give one of them", both->first, both->second);
  }
  return plain_message(message);
}

/// What the user got wrong. An unknown argument comes first: it may be why another one seems to be missing.
std::string message_for(const Command& command, const CLI::ParseError& error) {
  try {
    const std::string unknown = unknown_argument(command);
    return unknown.empty() ? own_message(error) : unknown;
  } catch (const Error& unknown_command) {
    return unknown_command.what();
  }
}

}  // namespace

std::string parse(const Command& program, int argc, const char* const* argv, int width) {
  try {
    program.parser().parse(argc, argv);
    return {};
  } catch (const CLI::CallForHelp&) {
    return program.given_command().help(width);
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    const Command& command = program.given_command();
    throw Error(ErrorKind::Usage, fmt::format("{} (see {} --help)", message_for(command, error),
                                              command.full_name()));
  }
}

}  // namespace trireme::cli
