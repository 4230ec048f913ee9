#include "program/traffic.h"

#include <map>

#include "graph/blocks.h"
#include "trireme/program_set.h"

namespace trireme {
namespace {

double input_bytes(const Signature& s) {
  return static_cast<double>(size_of(s.inputs.at(0)).count);
}
double ranks(const Signature& s) {
  return static_cast<double>(s.integer("ranks"));
}

/// The bytes of this rank's own block of the input, split along a dimension.
double own_bytes(const Signature& s, std::string_view dimension, std::string_view unit) {
  const std::int64_t size = s.shape(0).dim(static_cast<int>(s.integer(dimension)));
  const IndexRange block = block_of(size, s.integer(unit), s.integer("ranks"), s.integer("index"));
  return size == 0 ? 0
                   : input_bytes(s) / static_cast<double>(size) * static_cast<double>(block.length);
}

double of_all_reduce(const Signature& s) {
  return 2 * input_bytes(s) * (ranks(s) - 1) / ranks(s);
}
double of_all_gather(const Signature& s) {
  return input_bytes(s) * (ranks(s) - 1);
}
double of_reduce_scatter(const Signature& s) {
  return input_bytes(s) - own_bytes(s, "dimension", "unit");
}
double of_all_to_all(const Signature& s) {
  return input_bytes(s) - own_bytes(s, "to", "to_unit");
}

}  // namespace

Signature signature_of(const Program& program, const Instruction& instruction) {
  Signature signature{.op = instruction.op, .inputs = {}, .attributes = &instruction.attributes};
  signature.inputs.reserve(instruction.inputs.size());
  for (const BufferId input : instruction.inputs) {
    signature.inputs.push_back(program.buffer(input).type);
  }
  return signature;
}

double bytes_sent(const Signature& exchange) {
  using Formula = double (*)(const Signature&);
  static const std::map<std::string_view, Formula> formulas{{"all_reduce", of_all_reduce},
                                                            {"all_gather", of_all_gather},
                                                            {"reduce_scatter", of_reduce_scatter},
                                                            {"all_to_all", of_all_to_all},
                                                            {"send", input_bytes}};
  const auto it = formulas.find(exchange.op->name);
  return it == formulas.end() ? 0 : it->second(exchange);
}

std::vector<OpTraffic> traffic_of(const Program& program) {
  std::map<std::pair<std::string, std::string>, double> sums;
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.op->communicates) {
      continue;
    }
    const Signature signature = signature_of(program, instruction);
    const bool grouped = instruction.attributes.contains("group");
    sums[{std::string(instruction.op->name), grouped ? signature.text("group") : ""}] +=
        bytes_sent(signature);
  }
  std::vector<OpTraffic> all;
  all.reserve(sums.size());
  for (const auto& [key, bytes] : sums) {
    all.push_back({.op = key.first, .group = key.second, .bytes = bytes});
  }
  return all;
}

}  // namespace trireme
