#include "comm/rendezvous/launch_variables.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::comm {
namespace {

constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

using Names = std::vector<std::string>;

/// The variables of one launcher; if there are several names, the first one set counts.
struct Source {
  Launcher launcher;
  Names rank;
  Names size;
  Names local_rank;
  Names local_size;
  Names job;
};

/// Innermost first: a later one may have started an earlier one.
std::vector<Source> all_sources() {
  return {
      {.launcher = Launcher::Trireme,
       .rank = {"TRIREME_RANK"},
       .size = {"TRIREME_SIZE"},
       .local_rank = {},
       .local_size = {},
       .job = {}},
      {.launcher = Launcher::Torchrun,
       .rank = {"RANK"},
       .size = {"WORLD_SIZE"},
       .local_rank = {"LOCAL_RANK"},
       .local_size = {"LOCAL_WORLD_SIZE"},
       .job = {"TORCHELASTIC_RUN_ID"}},
      {.launcher = Launcher::OpenMpi,
       .rank = {"OMPI_COMM_WORLD_RANK"},
       .size = {"OMPI_COMM_WORLD_SIZE"},
       .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
       .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       .job = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
               "OMPI_MCA_orte_precondition_transports"}},
      {.launcher = Launcher::Mpich,
       .rank = {"PMI_RANK", "PMI_ID"},
       .size = {"PMI_SIZE"},
       .local_rank = {"MPI_LOCALRANKID"},
       .local_size = {"MPI_LOCALNRANKS"},
       .job = {"PMI_JOBID"}},
      {.launcher = Launcher::Slurm,
       .rank = {"SLURM_PROCID"},
       .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       .local_rank = {"SLURM_LOCALID"},
       .local_size = {},
       .job = {"SLURM_JOB_ID"}},
  };
}

/// A variable that is set.
struct Variable {
  std::string name;
  std::string value;

  [[nodiscard]] std::string text() const { return fmt::format("{}={}", name, in_quotes(value)); }
};

struct Number {
  Variable variable;
  Rank value = 0;
};

/// The variables of one launcher.
struct Found {
  Source source;
  Number rank;
  Number size;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::Usage, message);
}

class Finder {
 public:
  explicit Finder(const Lookup& lookup) : lookup_(lookup) {}

  LaunchInfo find() {
    std::vector<Found> found;
    for (Source& source : all_sources()) {
      if (std::optional<Found> one = find_source(std::move(source))) {
        found.push_back(std::move(*one));
      }
    }
    LaunchInfo info;
    if (!found.empty()) {
      for (const Found& other : found) {
        check_agreement(found.front(), other);
      }
      fill(info, found.front());
    }
    if (const auto hex = variable("TRIREME_SECRET")) {
      info.secret = in_context<Secret>(hex->name, [&] { return Secret::from_hex(hex->value); });
    }
    return info;
  }

 private:
  [[nodiscard]] std::optional<Variable> variable(const std::string& name) const {
    std::optional<std::string> value = lookup_(name);
    if (!value || value->empty()) {
      return std::nullopt;
    }
    return Variable{.name = name, .value = std::move(*value)};
  }

  [[nodiscard]] std::optional<Variable> first_of(const Names& names) const {
    for (const std::string& name : names) {
      if (std::optional<Variable> found = variable(name)) {
        return found;
      }
    }
    return std::nullopt;
  }

  /// Prefixes errors thrown by `read` with the variable's name.
  template <class T, class Read>
  static T in_context(const std::string& name, const Read& read) {
    try {
      return read();
    } catch (const Error& error) {
      refuse(fmt::format("{}: {}", name, error.what()));
    }
  }

  static Number number_of(const Variable& variable, std::int64_t least, std::int64_t most) {
    const std::optional<std::int64_t> value = parse_integer(variable.value);
    if (!value || *value < least || *value > most) {
      refuse(fmt::format("{} is not a number from {} to {}", variable.text(), least, most));
    }
    return {.variable = variable, .value = static_cast<Rank>(*value)};
  }

  [[nodiscard]] std::optional<Number> optional_number(const Names& names, std::int64_t least,
                                                      std::int64_t most) const {
    const std::optional<Variable> found = first_of(names);
    return found ? std::optional(number_of(*found, least, most)) : std::nullopt;
  }

  [[nodiscard]] std::optional<Found> find_source(Source source) const {
    const std::optional<Variable> rank = first_of(source.rank);
    const std::optional<Variable> size = first_of(source.size);
    const bool is_slurm = source.launcher == Launcher::Slurm;
    if ((!rank && !size) || (is_slurm && (!rank || !variable("SLURM_STEP_ID")))) {
      return std::nullopt;
    }
    if (!rank || !size) {
      const Variable& set = rank ? *rank : *size;
      refuse(fmt::format("{} is set but {} is not; set both or neither ({})", set.text(),
                         (rank ? source.size : source.rank).front(), to_text(source.launcher)));
    }
    Number count = number_of(*size, 1, kMaxRanks);
    const std::optional<std::int64_t> place = parse_integer(rank->value);
    if (!place || *place < 0 || *place >= count.value) {
      refuse(fmt::format("{} is not a number from 0 to {} ({})", rank->text(), count.value - 1,
                         size->text()));
    }
    return Found{.source = std::move(source),
                 .rank = {.variable = *rank, .value = static_cast<Rank>(*place)},
                 .size = std::move(count)};
  }

  /// Whether each process of the outer launcher may have started several of the inner one.
  [[nodiscard]] bool can_be_inside(const Found& inner, const Found& outer) const {
    const Launcher in = inner.source.launcher;
    const bool starts_more =
        outer.source.launcher == Launcher::Slurm || in == Launcher::Trireme ||
        (in == Launcher::Torchrun && variable("TORCHELASTIC_RUN_ID").has_value());
    return starts_more && outer.size.value < inner.size.value;
  }

  void check_agreement(const Found& chosen, const Found& other) const {
    const bool rank_differs = chosen.rank.value != other.rank.value;
    if ((!rank_differs && chosen.size.value == other.size.value) || can_be_inside(chosen, other)) {
      return;
    }
    const Variable& a = rank_differs ? chosen.rank.variable : chosen.size.variable;
    const Variable& b = rank_differs ? other.rank.variable : other.size.variable;
    refuse(fmt::format(
        "{} ({}) and {} ({}) disagree; unset those that are left over from elsewhere", a.text(),
        to_text(chosen.source.launcher), b.text(), to_text(other.source.launcher)));
  }

  void fill(LaunchInfo& info, const Found& found) const {
    info.launcher = found.source.launcher;
    info.rank = found.rank.value;
    info.size = found.size.value;
    fill_local(info, found.source);
    fill_job(info, found.source);
    info.store = find_store(info);
  }

  void fill_local(LaunchInfo& info, const Source& source) const {
    if (const auto size = optional_number(source.local_size, 1, info.size)) {
      info.local_size = size->value;
      info.one_host = size->value == info.size;
    }
    const Rank most = info.local_size.value_or(info.size);
    if (const auto rank = optional_number(source.local_rank, 0, most - 1)) {
      info.local_rank = rank->value;
    }
    if (info.launcher == Launcher::Slurm) {
      if (const auto nodes =
              optional_number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, 1, kMaxRanks)) {
        info.one_host = nodes->value == 1;
      }
    }
    if (info.size == 1) {
      info.one_host = true;
    }
  }

  void fill_job(LaunchInfo& info, const Source& source) const {
    if (const auto job = first_of(source.job)) {
      info.job = job->value;
    }
    // A Slurm job can have several steps at a time; torchrun's id is "none" unless set by the user,
    // and only its port is unique.
    const bool is_torchrun = info.launcher == Launcher::Torchrun;
    if (is_torchrun || info.launcher == Launcher::Slurm) {
      if (const auto part = variable(is_torchrun ? "MASTER_PORT" : "SLURM_STEP_ID")) {
        info.job += (info.job.empty() ? "" : ".") + part->value;
      }
    }
  }

  [[nodiscard]] std::optional<Address> find_store(const LaunchInfo& info) const {
    if (const auto store = variable("TRIREME_STORE")) {
      return in_context<Address>(store->name, [&] { return parse_address(store->value); });
    }
    const auto host = variable("MASTER_ADDR");
    const auto port = variable("MASTER_PORT");
    if (host && port) {
      const Number number = number_of(*port, 1, 65534);
      return Address{.host = host->value, .port = static_cast<std::uint16_t>(number.value + 1)};
    }
    if ((host || port) && info.launcher == Launcher::Torchrun) {
      refuse(fmt::format("{} is set but {} is not; set both or neither",
                         (host ? *host : *port).text(), host ? "MASTER_PORT" : "MASTER_ADDR"));
    }
    const bool several_nodes = info.launcher == Launcher::Slurm && !info.one_host.value_or(true);
    const auto nodes = several_nodes ? variable("SLURM_STEP_NODELIST") : std::nullopt;
    if (!nodes) {
      return std::nullopt;
    }
    return Address{.host = first_host(nodes->value), .port = port_of(info.job)};
  }

  /// A port that all ranks of a job derive independently, below the ephemeral ports: 15000 to
  /// 29999. Another job may be using it; then listening fails, and setting TRIREME_STORE avoids it.
  static std::uint16_t port_of(std::string_view job) {
    std::uint32_t hash = 2166136261U;  // FNV-1a
    for (const char c : job) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return static_cast<std::uint16_t>(15000 + hash % 15000);
  }

  const Lookup& lookup_;
};

}  // namespace

std::string_view to_text(Launcher launcher) {
  static constexpr auto kNames =
      enum_names<Launcher>("alone", "Trireme", "torchrun", "Open MPI", "MPICH", "Slurm");
  return kNames[launcher];
}

LaunchInfo find_launch(const Lookup& lookup) {
  return Finder(lookup).find();
}

std::string first_host(std::string_view node_list) {
  std::string host;
  for (std::size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    const std::size_t end = std::min(node_list.find_first_of("-,]", at), node_list.size());
    host += node_list.substr(at + 1, end - at - 1);
    at = std::min(node_list.find(']', at), node_list.size());
  }
  return host;
}

}  // namespace trireme::comm
