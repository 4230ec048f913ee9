#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/error.h"
#include "trireme/sync.h"

namespace trireme {
namespace {

using Kind = SyncSpec::Kind;

struct Row {
  Kind kind;
  std::string_view name;
  int SyncSpec::*number = nullptr;  ///< written behind the name: local=8
};

constexpr std::array<Row, 10> kRows{{{Kind::Allreduce, "allreduce"},
                                     {Kind::Tree, "tree"},
                                     {Kind::Gossip, "gossip"},
                                     {Kind::Group, "group", &SyncSpec::group},
                                     {Kind::Local, "local", &SyncSpec::steps},
                                     {Kind::Hogwild, "hogwild"},
                                     {Kind::ServerBsp, "ps:bsp"},
                                     {Kind::ServerSsp, "ps:ssp", &SyncSpec::staleness},
                                     {Kind::ServerEssp, "ps:essp", &SyncSpec::staleness},
                                     {Kind::ServerAsync, "ps:async"}}};
constexpr std::string_view kGlobal = ",global=";
constexpr std::string_view kPool = ",pool";
constexpr std::string_view kInconsistent = ",inconsistent";

const Row& row_of(Kind kind) {
  return *std::ranges::find(kRows, kind, &Row::kind);
}

std::optional<int> parse_count(std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(count)
                                                                  : std::nullopt;
}

[[noreturn]] void refuse_strategy(std::string_view text) {
  throw Error(ErrorKind::Usage,
              fmt::format("unknown strategy '{}'; use allreduce, tree, gossip, group=WORKERS, "
                          "group=WORKERS,global=STEPS, local=STEPS, hogwild, ps:bsp, "
                          "ps:ssp=STALENESS, ps:essp=STALENESS, ps:async or "
                          "ps:async,inconsistent; the last four may end in ,pool",
                          text));
}

/// Removes an ending. Returns whether it was there.
bool take_ending(std::string_view& text, std::string_view ending) {
  const bool has_it = text.starts_with("ps:") && text.ends_with(ending);
  text.remove_suffix(has_it ? ending.size() : 0);
  return has_it;
}

/// Collects errors.
class Checks {
 public:
  void require(bool holds, std::string otherwise) {
    if (!holds) {
      found_.push_back(std::move(otherwise));
    }
  }
  [[nodiscard]] std::vector<std::string> found() && { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void check_plan(const SyncSpec& spec, const Plan& plan, Checks& checks) {
  const std::string name = to_text(spec);
  const int workers = plan.mesh.size("data");
  checks.require(
      workers >= 2,
      fmt::format("--sync {} is for several workers along the mesh's data axis, and this "
                  "run has one; use -n 4 or --mesh data=4, or --sync allreduce",
                  name));
  checks.require(plan.zero == 0,
                 fmt::format("--sync {}: each worker keeps a whole model and optimizer state, "
                             "which --zero {} would shard along data; leave out --zero, or use "
                             "--sync allreduce",
                             name, plan.zero));
  checks.require(!plan.compression.any(),
                 fmt::format("--sync {}: --compress works on all-reduced gradients; leave it out, "
                             "or use --sync allreduce",
                             name));
  const bool on_data_alone = plan.mesh.devices() == workers;
  checks.require(!updates_elsewhere(spec) || on_data_alone,
                 fmt::format("--sync {}: {} updates the whole model, so a worker is one device; "
                             "use a mesh with data alone",
                             name, uses_server(spec) ? "the parameter server" : "worker 0"));
  checks.require(
      !updates_elsewhere(spec) || plan.microbatches == 1,
      fmt::format("--sync {} does not accumulate gradients; leave out --microbatches", name));
  checks.require(spec.kind != Kind::Hogwild || on_data_alone,
                 "--sync hogwild: a worker is one thread; use a mesh with data alone");
  checks.require(spec.kind != Kind::Group || spec.group <= workers,
                 fmt::format("--sync {}: there are only {} workers along data", name, workers));
}

}  // namespace

std::string_view to_text(Kind kind) {
  return row_of(kind).name;
}

std::string_view to_text(SyncSpec::Samples samples) {
  static constexpr auto kNames = enum_names<SyncSpec::Samples>("shares", "pool");
  return kNames[samples];
}

std::string_view to_text(SyncSpec::Reads reads) {
  static constexpr auto kNames = enum_names<SyncSpec::Reads>("snapshot", "inconsistent");
  return kNames[reads];
}

std::string to_text(const SyncSpec& spec) {
  const Row& row = row_of(spec.kind);
  std::string text(row.name);
  if (row.number != nullptr) {
    text += fmt::format("={}", spec.*row.number);
  }
  if (spec.kind == Kind::Group && spec.global_every > 0) {
    text += fmt::format("{}{}", kGlobal, spec.global_every);
  }
  text += spec.reads == SyncSpec::Reads::Inconsistent ? kInconsistent : "";
  text += spec.samples == SyncSpec::Samples::Pool ? kPool : "";
  return text;
}

SyncSpec parse_sync(std::string_view text) {
  SyncSpec spec;
  std::string_view head = text;
  spec.samples = take_ending(head, kPool) ? SyncSpec::Samples::Pool : SyncSpec::Samples::Shares;
  spec.reads =
      take_ending(head, kInconsistent) ? SyncSpec::Reads::Inconsistent : SyncSpec::Reads::Snapshot;
  if (const std::size_t at = text.find(kGlobal);
      at != std::string_view::npos && text.starts_with("group=")) {
    const std::optional<int> every = parse_count(text.substr(at + kGlobal.size()));
    spec.global_every = every && *every > 0 ? *every : -1;
    head = text.substr(0, at);
  }
  const std::size_t equals = head.find('=');
  const auto* row = std::ranges::find(kRows, head.substr(0, equals), &Row::name);
  const bool has_number = equals != std::string_view::npos;
  if (row == kRows.end() || has_number != (row->number != nullptr) || spec.global_every < 0) {
    refuse_strategy(text);
  }
  spec.kind = row->kind;
  if (has_number) {
    const std::optional<int> number = parse_count(head.substr(equals + 1));
    if (!number) {
      refuse_strategy(text);
    }
    spec.*row->number = *number;
  }
  require_valid(spec);
  return spec;
}

std::vector<std::string> problems(const SyncSpec& spec) {
  Checks checks;
  checks.require(spec.kind != Kind::Group || spec.group >= 2,
                 fmt::format("group={}: a group has 2 workers or more; use group=2", spec.group));
  checks.require(spec.global_every >= 0,
                 fmt::format("global={}: it must be 1 step or more", spec.global_every));
  checks.require(spec.kind != Kind::Local || spec.steps >= 1,
                 fmt::format("local={}: it must be 1 step or more", spec.steps));
  checks.require(spec.staleness >= 0,
                 fmt::format("the staleness is {}; it must be 0 or more", spec.staleness));
  checks.require(spec.samples == SyncSpec::Samples::Shares || staleness_bound(spec) != 0,
                 fmt::format("{}: without staleness every worker does part of every step, so "
                             "there is nothing to hand out; use ps:ssp=3,pool",
                             to_text(spec)));
  checks.require(spec.reads == SyncSpec::Reads::Snapshot || spec.kind == Kind::ServerAsync,
                 fmt::format("{}: only ps:async has inconsistent reads", to_text(spec)));
  return std::move(checks).found();
}

std::vector<std::string> problems(const SyncSpec& spec, const Plan& plan) {
  if (std::vector<std::string> own = problems(spec); !own.empty()) {
    return own;
  }
  Checks checks;
  if (has_replicas(spec)) {
    check_plan(spec, plan, checks);
  }
  return std::move(checks).found();
}

bool has_replicas(const SyncSpec& spec) {
  return spec.kind != Kind::Allreduce;
}

bool needs_threads(const SyncSpec& spec) {
  return spec.kind == Kind::Hogwild;
}

bool uses_server(const SyncSpec& spec) {
  return spec.kind >= Kind::ServerBsp;
}

bool updates_elsewhere(const SyncSpec& spec) {
  return spec.kind == Kind::Tree || uses_server(spec);
}

int model_copies(const SyncSpec& spec) {
  switch (spec.kind) {
    case Kind::Allreduce:
      return 0;
    case Kind::Tree:  // gradients, model
    case Kind::Local:
    case Kind::Group:  // before and after
      return 2;
    case Kind::Hogwild:  // also the snapshot and, on worker 0, the shared vector
      return 4;
    case Kind::Gossip:
      return 5;
    case Kind::ServerSsp:  // also the optimizer's state of own pushes
      return 7;
    case Kind::ServerBsp:
    case Kind::ServerEssp:
    case Kind::ServerAsync:  // elements, rows, copy, pushed gradient, refresh
      return 5;
  }
  return 0;
}

std::optional<int> staleness_bound(const SyncSpec& spec) {
  switch (spec.kind) {
    case Kind::ServerSsp:
    case Kind::ServerEssp:
      return spec.staleness;
    case Kind::ServerAsync:
      return std::nullopt;
    default:
      return 0;
  }
}

}  // namespace trireme
