#include "trireme/bench_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/bench_lists.h"
#include "trireme/cores.h"
#include "trireme/error.h"
#include "trireme/host_probe.h"
#include "trireme/message.h"

namespace trireme::measure {
namespace {

TransportKind parse_bench_transport(const std::string& text) {
  std::vector<std::string> names;
  for (const TransportKind kind : all_transports()) {
    names.emplace_back(to_text(kind));
    if (text != names.back()) {
      continue;
    }
    require(is_built(kind), fmt::format("this build has no transport {}; install libucx-dev "
                                        "and rebuild, or use tcp",
                                        text));
    return kind;
  }
  throw Error(ErrorKind::Usage, unknown_name("transport", text, names));
}

/// Adds the cases that the lists name to the plan.
void add_cases(BenchPlan& plan, const BenchOptions& o) {
  BenchSelection selection{.operations = parse_operation_list(o.operations),
                           .sizes = parsed("--sizes", o.sizes, parse_size_list)};
  if (o.algorithms != "all") {
    selection.methods = parsed("--algorithm", o.algorithms, parse_method_list);
    require(shares_memory(plan) || std::ranges::find(*selection.methods, Method::Kind::Direct,
                                                     &Method::kind) == selection.methods->end(),
            "--algorithm: direct needs ranks that share memory; use --transport shm or in-process");
  }
  parsed("--sizes", o.sizes, [&](const std::string&) { add_cases(plan, selection); });
  require(
      !plan.cases.empty(),
      fmt::format("--algorithm: {} does not do {}; 'trireme schedule --help' lists the algorithms",
                  o.algorithms, o.operations));
}

}  // namespace

BenchPlan make_bench_plan(const BenchOptions& options) {
  BenchPlan plan{.ranks = options.ranks == 0 ? std::max(2, usable_cores()) : options.ranks,
                 .transport = parsed("--transport", options.transport, parse_bench_transport),
                 .encrypt = options.encrypt,
                 .dtype = parsed("--dtype", options.dtype, parse_dtype),
                 .buffers = parsed("--buffers", options.buffers, parse_buffer_kind),
                 .repeats = options.repeats};
  if (plan.ranks < 1 || plan.ranks > kMaxBenchRanks) {
    throw Error(ErrorKind::Usage, fmt::format("--ranks: {} ranks; a benchmark has 1 to {}",
                                              plan.ranks, kMaxBenchRanks));
  }
  if (plan.buffers == BufferKind::Shared && !shares_memory(plan)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("--buffers: --transport {} has no shared buffers; use shm or in-process",
                    to_text(plan.transport)));
  }
  if (plan.encrypt && plan.transport != TransportKind::Tcp) {
    throw Error(ErrorKind::Usage,
                fmt::format("--encrypt: {} is not encrypted (--transport {}); use --transport tcp",
                            plan.transport == TransportKind::Ucx ? "ucx" : "memory of one host",
                            to_text(plan.transport)));
  }
  add_cases(plan, options);
  return plan;
}

}  // namespace trireme::measure
