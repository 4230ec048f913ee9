// `trireme help`: the overview, or the help of a command.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "command_line/terminal.h"

namespace trireme::cli {

void add_help_command(Command& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command* command = app.add_subcommand("help", "Print this overview, or the help of a command");
  command->add_option("command", *words, "such as train, or plan show");
  command->callback([words, &app] {
    const Command* named = &app;
    for (const std::string& word : *words) {
      named = &named->subcommand(word);
    }
    std::cout << named->help(help_width());
  });
}

}  // namespace trireme::cli
