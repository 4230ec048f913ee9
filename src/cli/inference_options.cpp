#include "cli/inference_options.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "cli/path_option.h"
#include "trireme/mesh.h"
#include "trireme/message.h"

namespace trireme::cli {

Plan InferenceOptions::plan() const {
  require(!ranks || *ranks >= 1, fmt::format("-n is {}; it must be 1 or more", ranks.value_or(0)));
  const std::string wanted = !mesh.empty() ? mesh
                             : ranks > 1   ? fmt::format("tensor={}", *ranks)
                                           : "";
  Plan plan;
  plan.mesh = parsed("--mesh", wanted, parse_mesh);
  require(!ranks || *ranks == plan.mesh.devices(),
          fmt::format("-n is {}, but the mesh {} has {} devices; leave out -n, or make them agree",
                      ranks.value_or(0), to_text(plan.mesh), plan.mesh.devices()));
  return plan;
}

void add_inference_options(Command* command, InferenceOptions& o) {
  command->section("Model");
  command->add_option("--run", o.source.run,
                      "the folder of a run: its best checkpoint with --keep-best, else its newest",
                      non_empty_path);
  command->add_option("--model", o.source.model,
                      "a Hugging Face folder: config.json and safetensors", non_empty_path);
  command->add_option("--tokenizer", o.source.tokenizer,
                      "a tokenizer.json, or a folder with one (default: the run's, or the model's)",
                      non_empty_path);
  command->section("Execution");
  command->add_option("-n,--ranks", o.ranks, "number of ranks (default: the size of the mesh)");
  command->add_option("--mesh", o.mesh,
                      "ranks by axis, such as tensor=2,pipe=2 (default: all along tensor)");
  command->add_option("--threads", o.threads, "compute threads per rank; 0: all cores");
  command->add_flag("--json", o.json, "print one line of JSON");
}

std::shared_ptr<const std::string> read_standard_input(const std::vector<std::string>& names) {
  if (std::ranges::find(names, "-") == names.end()) {
    return nullptr;
  }
  return std::make_shared<const std::string>(std::istreambuf_iterator<char>(std::cin),
                                             std::istreambuf_iterator<char>());
}

}  // namespace trireme::cli
