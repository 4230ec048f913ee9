// The command line: commands, their options, and what these accept. Used by one thread.
//
// Only command_line.cpp and parse.cpp know the parser behind it (CLI11), which takes seconds to compile.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the parser's
class App;
class Option;
}  // namespace CLI

namespace trireme::cli {

/// The error in an option's value; "" if it is valid.
using Check = std::function<std::string(const std::string& value)>;

[[nodiscard]] Check integer_in(std::int64_t least, std::int64_t most);
[[nodiscard]] Check number_in(double least, double most);
[[nodiscard]] Check above_zero();

/// An option, a flag or a positional argument. The functions return it again, to be chained.
class Option {
 public:
  explicit Option(CLI::Option* parsed) : parsed_(parsed) {}

  Option* required();
  /// Refuses other values. Help lists them, and the shell completes them.
  Option* choices(const std::vector<std::string>& values);
  /// Rejects the option if the other one is given.
  Option* excludes(Option* other);
  /// Rejects the option unless the other one is given.
  Option* needs(Option* other);
  /// A list in one argument: "4KiB,1MiB".
  Option* delimiter(char separator);
  /// Each use of the option takes one value.
  Option* one_value_each();

 private:
  friend class Command;
  CLI::Option* parsed_;  // belongs to the parser of the command
};

/// The destination of an option's value, which must outlive the command. An optional one stays empty if the option is
/// not given.
using Target = std::variant<std::string*, int*, std::uint32_t*, std::int64_t*, std::uint64_t*,
                            double*, std::optional<int>*, std::optional<std::int64_t>*,
                            std::optional<std::string>*, std::vector<std::string>*>;

/// A command, with options and subcommands. Pointers to options and subcommands stay valid as long as it lives.
class Command {
 public:
  /// The program itself.
  Command(const std::string& name, const std::string& description, const std::string& version);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command* add_subcommand(const std::string& name, const std::string& description);

  /// `names` is "-n,--ranks", or "operation" for a positional argument. Help shows the present value of the variable as
  /// the default, unless it is empty or not positive, which mean "decided elsewhere". Values that `help` lists at its
  /// end, after "one of: ", are those that the shell completes. Rejects values for which `check` returns an error.
  template <class T>
  Option* add_option(const std::string& names, T& value, const std::string& help,
                     const Check& check = {}) {
    return add_option(names, Target(&value), help, check);
  }
  /// Hands the value to a function, which may throw Error.
  Option* add_option_function(const std::string& names,
                              const std::function<void(const std::string&)>& take,
                              const std::string& help);
  Option* add_flag(const std::string& names, bool& value, const std::string& help);
  /// Requires that there is such an option.
  Option* get_option(const std::string& name);

  /// Starts a titled section of help for the options added afterwards.
  void section(const std::string& title);
  /// Help leaves the command out: it is for other programs.
  void hide();
  /// A command line without one of the subcommands is refused.
  void require_subcommand();
  /// Called once the command line is parsed, unless it names a subcommand of this one.
  void callback(const std::function<void()>& run);

  [[nodiscard]] bool is_given(const std::string& option) const;
  /// The long names of the options given, without dashes.
  [[nodiscard]] std::vector<std::string> given() const;
  /// The command that the command line names: this one, or a subcommand at any depth.
  [[nodiscard]] const Command& given_command() const;
  /// Throws Error(Usage) that suggests the nearest name if there is none of this name.
  [[nodiscard]] const Command& subcommand(const std::string& name) const;
  /// The help page in this many columns, with the command's examples (report/help_examples.h).
  [[nodiscard]] std::string help(int width) const;
  /// "trireme plan show".
  [[nodiscard]] std::string full_name() const;
  /// For parse().
  [[nodiscard]] CLI::App& parser() const { return *parser_; }

 private:
  explicit Command(CLI::App* parser);
  Option* add_option(const std::string& names, Target target, const std::string& help,
                     const Check& check);
  Option* keep(CLI::Option* option);

  std::unique_ptr<CLI::App> program_;  // of the program itself; it owns the parsers of all commands
  CLI::App* parser_;
  std::deque<Option> options_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

}  // namespace trireme::cli
