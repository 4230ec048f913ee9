#include "command_line/command_line.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "report/help_examples.h"
#include "report/help_text.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

constexpr const char* kUsualSection = "Options";

template <class Number>
Check within(Number least, Number most, const std::string& expected) {
  return [=](const std::string& value) {
    Number number{};
    const bool good = CLI::detail::lexical_cast(value, number) && number >= least && number <= most;
    return good ? "" : fmt::format("invalid value {}: expected {}", in_quotes(value), expected);
  };
}

/// Whether a variable's initial value is worth showing.
template <class T>
bool is_default(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value > 0;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return !value.empty();
  } else {
    return false;
  }
}

/// "-n,--ranks VALUE=8". An argument in its place has no dashes and no VALUE.
std::string shown_name(const CLI::Option& option) {
  const bool positional = option.get_positional();
  std::string name = option.get_name(positional, !positional);
  if (option.get_items_expected_max() == 0) {
    return name;
  }
  const std::string fallback = option.get_default_str();
  return name + (positional ? "" : " VALUE") + (fallback.empty() ? "" : "=" + fallback);
}

/// The section of this title, added at the end if there is none yet.
report::HelpSection& section_of(report::HelpPage& page, const std::string& title) {
  const auto found = std::ranges::find(page.sections, title, &report::HelpSection::title);
  if (found != page.sections.end()) {
    return *found;
  }
  page.sections.push_back({.title = title, .rows = {}});
  return page.sections.back();
}

std::string usage_of(const std::string& name, const CLI::App& parser) {
  std::string usage = name + " [OPTIONS]";
  for (const CLI::Option* option : parser.get_options()) {
    if (option->get_positional()) {
      const std::string argument = option->get_name(true, false);
      usage += option->get_required() ? " " + argument : " [" + argument + "]";
    }
  }
  if (!parser.get_subcommands({}).empty()) {
    usage += parser.get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
  }
  return usage;
}

report::HelpPage page_of(const std::string& name, const CLI::App& parser) {
  report::HelpPage page{.description = parser.get_description(),
                        .usage = usage_of(name, parser),
                        .sections = {},
                        .footer = std::string(report::help_examples_of(name))};
  for (const CLI::App* command : parser.get_subcommands({})) {
    if (command->get_group().empty()) {
      continue;  // hidden
    }
    section_of(page, "Commands").rows.push_back({command->get_name(), command->get_description()});
  }
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : parser.get_options()) {
      if (option->get_positional() == positional) {
        section_of(page, positional ? "Arguments" : option->get_group())
            .rows.push_back({shown_name(*option), option->get_description()});
      }
    }
  }
  return page;
}

}  // namespace

Check integer_in(std::int64_t least, std::int64_t most) {
  return within(least, most, fmt::format("an integer from {} to {}", least, most));
}

Check number_in(double least, double most) {
  return within(least, most, fmt::format("a number from {:g} to {:g}", least, most));
}

Check above_zero() {
  return within(std::numeric_limits<double>::min(), std::numeric_limits<double>::max(),
                "a number above 0");
}

Option* Option::required() {
  parsed_->required();
  return this;
}

Option* Option::choices(const std::vector<std::string>& values) {
  const std::string help = parsed_->get_description();
  parsed_->description(
      fmt::format("{}{}one of: {}", help, help.empty() ? "" : "; ", fmt::join(values, " ")));
  parsed_->check([values](const std::string& value) {
    return std::ranges::find(values, value) == values.end() ? unknown_name("value", value, values)
                                                            : "";
  });
  return this;
}

Option* Option::excludes(Option* other) {
  parsed_->excludes(other->parsed_);
  return this;
}

Option* Option::needs(Option* other) {
  parsed_->needs(other->parsed_);
  return this;
}

Option* Option::delimiter(char separator) {
  parsed_->delimiter(separator);
  return this;
}

Option* Option::one_value_each() {
  parsed_->allow_extra_args(false);
  return this;
}

Command::Command(const std::string& name, const std::string& description,
                 const std::string& version)
    : program_(std::make_unique<CLI::App>(description, name)), parser_(program_.get()) {
  parser_->require_subcommand(0, 1);
  parser_->set_help_flag("-h,--help", "print this help");
  parser_->set_version_flag("--version", name + " " + version, "print the version");
}

Command::Command(CLI::App* parser) : parser_(parser) {}

Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& description) {
  CLI::App* parser = parser_->add_subcommand(name, description);
  parser->require_subcommand(0, 1);
  parser->option_defaults()->group(kUsualSection);  // not the section that this command is in
  subcommands_.push_back(std::unique_ptr<Command>(new Command(parser)));
  return subcommands_.back().get();
}

Option* Command::keep(CLI::Option* option) {
  return &options_.emplace_back(option);
}

Option* Command::add_option(const std::string& names, Target target, const std::string& help,
                            const Check& check) {
  const auto add = [&](auto* value) {
    CLI::Option* option = parser_->add_option(names, *value, help);
    return is_default(*value) ? option->capture_default_str() : option;
  };
  CLI::Option* option = std::visit(add, target);
  return keep(check ? option->check(check) : option);
}

Option* Command::add_option_function(const std::string& names,
                                     const std::function<void(const std::string&)>& take,
                                     const std::string& help) {
  return keep(parser_->add_option_function<std::string>(names, take, help));
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(parser_->add_flag(names, value, help));
}

Option* Command::get_option(const std::string& name) {
  const CLI::Option* option = parser_->get_option(name);
  return &*std::ranges::find(options_, option, &Option::parsed_);
}

void Command::section(const std::string& title) {
  parser_->option_defaults()->group(title);
}

void Command::hide() {
  parser_->group("");
}

void Command::require_subcommand() {
  parser_->require_subcommand(1);
}

void Command::callback(const std::function<void()>& run) {
  parser_->callback([run, parser = parser_] {
    if (parser->get_subcommands().empty()) {
      run();
    }
  });
}

bool Command::is_given(const std::string& option) const {
  return parser_->count(option) > 0;
}

std::vector<std::string> Command::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(*parser_).get_options()) {
    if (option->count() > 0) {
      names.push_back(option->get_single_name());
    }
  }
  return names;
}

const Command& Command::given_command() const {
  const std::vector<CLI::App*> given = parser_->get_subcommands();
  return given.empty() ? *this : subcommand(given.front()->get_name()).given_command();
}

const Command& Command::subcommand(const std::string& name) const {
  std::vector<std::string> names;
  for (const std::unique_ptr<Command>& command : subcommands_) {
    names.push_back(command->parser_->get_name());
    if (names.back() == name) {
      return *command;
    }
  }
  require(!names.empty(),
          fmt::format("{} has no subcommands; leave out {}", full_name(), in_quotes(name)));
  throw Error(ErrorKind::Usage, unknown_name("command", name, names));
}

std::string Command::help(int width) const {
  return report::help_text(page_of(full_name(), *parser_), width);
}

std::string Command::full_name() const {
  std::string name = parser_->get_name();
  for (const CLI::App* above = parser_->get_parent(); above != nullptr;
       above = above->get_parent()) {
    name.insert(0, above->get_name() + " ");
  }
  return name;
}

}  // namespace trireme::cli
