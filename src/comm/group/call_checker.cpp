#include "comm/group/call_checker.h"

#include <cstddef>
#include <span>

#include <fmt/format.h>

#include "comm/checks.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() == b.data() && a.size() == b.size();
}

/// Whether two calls are equal in everything that is checked. Calls with counts or a user's reduction never count as
/// equal: comparing them would cost as much as checking them.
bool is_repeated(const Call& a, const Call& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.root == b.root &&
         same_bytes(a.input, b.input) && same_bytes(a.output, b.output) && b.counts.empty() &&
         b.options.user == nullptr && a.options.reduction == b.options.reduction &&
         a.options.order == b.options.order && a.options.method == b.options.method &&
         a.options.site == b.options.site;
}

/// Throws unless the schedule supports blocks of these sizes.
void require_sizes(const Call& call, const Geometry& geometry, Algorithm algorithm,
                   const Schedule& schedule) {
  const bool splits = geometry.form != Form::Blocks || schedule.blocks % schedule.ranks == 0;
  const bool passes_on =
      !geometry.received.empty() && properties(algorithm).forwards_blocks && schedule.ranks > 1;
  if (!splits || passes_on) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} by {} cannot have blocks of different sizes; leave the method open",
                            to_text(call.operation), to_text(algorithm)));
  }
}

}  // namespace

const Prepared& CallChecker::prepare(const Call& call) {
  if (may_repeat_ && is_repeated(prepared_.call, call)) {
    if (is_checked()) {
      prepared_.record.history = history_after(prepared_.record);
    }
    prepared_.record.sequence = next_sequence();
    return prepared_;
  }
  may_repeat_ = false;
  prepared_.geometry = make_geometry(call, members_.rank(), members_.size());
  prepared_.method = choice_.choose(call, prepared_.geometry);
  require_possible(call, prepared_.geometry, prepared_.method);
  prepared_.call = call;
  if (is_checked()) {
    prepared_.record.history = history_after(prepared_.record);
    describe(call, prepared_.geometry.count, prepared_.method, prepared_.record);
  }
  prepared_.record.sequence = next_sequence();
  may_repeat_ = call.counts.empty() && call.options.user == nullptr;
  return prepared_;
}

/// Throws Error(Usage) if the method does not support the call.
void CallChecker::require_possible(const Call& call, const Geometry& geometry,
                                   const Method& method) {
  if (method.kind == Method::Kind::Scheduled) {
    require_sizes(call, geometry, method.algorithm,
                  schedules_.for_call(call, geometry, method.algorithm));
  }
}

}  // namespace trireme::comm
