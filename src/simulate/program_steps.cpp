#include "simulate/program_steps.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "program/traffic.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

using Exchange = ProgramSteps::Exchange;

Operation operation_of(const Signature& s) {
  static const std::map<std::string_view, Operation> operations{
      {"all_reduce", Operation::Allreduce},
      {"all_gather", Operation::Allgather},
      {"reduce_scatter", Operation::ReduceScatter},
      {"all_to_all", Operation::Alltoall}};
  const auto found = operations.find(s.op->name);
  if (found == operations.end()) {
    throw Error(ErrorKind::Usage, fmt::format("cannot simulate the op {}", s.op->name));
  }
  return found->second;
}

Bytes whole_bytes(const Signature& s) {
  const TensorType whole = s.op->name == "all_gather" ? s.op->infer(s).front() : s.inputs.front();
  return size_of(whole);
}

std::size_t position_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    names.push_back(name);
    return names.size() - 1;
  }
  return found - names.begin();
}

Exchange collective_of(const Signature& s, std::vector<std::string>& groups) {
  return {.kind = Exchange::Kind::Collective,
          .signature = s,
          .group = position_in(groups, s.text("group")),
          .operation = operation_of(s),
          .whole = whole_bytes(s)};
}

Exchange message_of(const Signature& s) {
  const bool sends = s.op->name == "send";
  return {.kind = sends ? Exchange::Kind::Send : Exchange::Kind::Receive,
          .signature = s,
          .peer = static_cast<int>(s.integer(sends ? "to" : "from")),
          .tag = s.integer("tag")};
}

}  // namespace

ProgramSteps steps_of(const Program& program, const ComputeTime& compute, bool overlap) {
  ProgramSteps result;
  result.program = &program;
  const std::vector<Instruction>& all = program.instructions;
  std::vector<std::vector<std::size_t>> waits(all.size() + 1);
  for (std::size_t at = 0; at < all.size(); ++at) {
    const Instruction& what = all[at];
    const Signature s = signature_of(program, what);
    ProgramSteps::Step step;
    if (what.op->communicates) {
      step.exchange = static_cast<std::int32_t>(result.exchanges.size());
      Exchange exchange =
          what.attributes.contains("group") ? collective_of(s, result.groups) : message_of(s);
      exchange.at = at;
      exchange.sent = bytes_sent(s);
      result.sent += exchange.sent;
      waits.at(overlap ? what.done_before : at + 1).push_back(result.exchanges.size());
      result.exchanges.push_back(std::move(exchange));
    } else if (!what.op->is_view) {
      step.runs = true;
      step.work = what.op->work(s);
      step.time = compute(s, step.work);
    }
    result.steps.push_back(step);
  }
  for (const std::vector<std::size_t>& before : waits) {
    result.first_wait_.push_back(result.waits_.size());
    result.waits_.insert(result.waits_.end(), before.begin(), before.end());
  }
  result.first_wait_.push_back(result.waits_.size());
  return result;
}

}  // namespace trireme::simulate
