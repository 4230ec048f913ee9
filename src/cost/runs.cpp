// Reads measured runs from CSV.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/text.h"
#include "cost/csv_row.h"
#include "trireme/error.h"
#include "trireme/measured_runs.h"

namespace trireme {
namespace {

/// Devices as the files name them, most specific first.
struct DeviceRow {
  const char* name;
  const char* cluster;
  const char* device;
  int devices_per_node;
};
constexpr std::array kDevices{DeviceRow{"A100-40GB", "dgx-a100", "a100-40gb", 8},
                              DeviceRow{"A100", "dgx-a100", "a100", 8},
                              DeviceRow{"H100-9", "dgx-h100", "h100-96gb", 8},
                              DeviceRow{"H100", "dgx-h100", "h100", 8},
                              DeviceRow{"H200", "dgx-h200", "h200", 8},
                              DeviceRow{"V100", "dgx-v100", "v100", 8},
                              DeviceRow{"GB200", "nvl72-gb200", "gb200", 64},
                              DeviceRow{"GB300", "nvl72-gb300", "gb300", 64},
                              DeviceRow{"B200", "dgx-b200", "b200", 8},
                              DeviceRow{"B300", "dgx-b300", "b300", 8}};

std::optional<Cluster> find_cluster(std::string_view device, int devices) {
  const std::string name = lower(device.starts_with("NVIDIA ") ? device.substr(7) : device);
  for (const DeviceRow& row : kDevices) {
    if (!name.starts_with(lower(row.name))) {
      continue;
    }
    const int per_node = std::min(row.devices_per_node, devices);
    const int nodes = (devices + per_node - 1) / per_node;
    Cluster cluster = cluster_preset(fmt::format("{}:{}", row.cluster, nodes));
    cluster.device = device_preset(row.device);
    cluster.devices_per_node = per_node;
    cluster.links.front().reach = per_node;
    cluster.links.back().reach = nodes * per_node;
    return cluster;
  }
  return std::nullopt;
}

std::string parse_precision(const std::string& text) {
  if (has(text, "fp4")) {
    return "f4";
  }
  if (has(text, "fp8")) {
    return "f8";
  }
  return has(text, "fp16") ? "f16" : "bf16";
}

/// "selective-op" and "selective-layer" count as "selective".
RecomputeMode parse_mode(std::string_view text) {
  return parse_recompute_mode(text.starts_with("selective-") ? "selective" : text);
}

Architecture parse_model(const CsvRow& row) {
  Architecture a;
  ModelConfig& m = a.model;
  m.name = row.text("model");
  m.width = row.integer("hidden", 0);
  m.layers = row.integer("layers", 0);
  m.heads = row.integer("heads", 1);
  m.key_heads = row.integer("kv_heads", static_cast<int>(m.heads));
  m.head_width = m.width / m.heads;
  m.hidden = row.integer("ffn", static_cast<int>(4 * m.width));
  m.vocabulary = row.integer("vocab", 51200);
  m.context = row.integer("seq", 2048);
  m.family = has(m.name, "llama") ? Family::Llama : Family::Gpt2;
  m.tied = m.family == Family::Gpt2;
  return a;
}

/// Efficiency::contention of vTrain's cluster: runs with 2 or 4 tensor-parallel ranks of 8 per node are that much slower than
/// those with 8. Fitted to half of the published runs.
constexpr double kVTrainContention = 0.10;

/// What a source's software does, where the file has no column for it.
void apply_software(const CsvRow& row, MeasuredRun& run) {
  const std::string source = row.text("source");
  const std::string notes = row.text("notes");
  const bool megatron2021 = has(source, "SC21") || has(source, "tables.tex") ||
                            has(source, "Korthikanti") || has(source, "MT-NLG");
  if (megatron2021) {
    run.work.attention = Workload::Attention::Unfused;
    run.work.overlap_data = false;
  }
  if (has(source, "vTrain") && run.cluster.nodes > 1) {
    run.cluster.links.back().beta.count *= 2;  // four network cards for eight GPUs
    run.cluster.efficiency = efficiency_of(run.cluster);
    run.cluster.efficiency->contention = kVTrainContention;
  }
  run.work.overlap_tensor = run.work.overlap_pipe =
      has(source, "Bridge") || has(notes, "AsyncTP") || has(notes, "async TP");
  run.work.recipe.gradient_bytes = run.work.dtype == "f16" ? 2 : 4;
  run.layout.sequence =
      has(notes, "sequence parallel=yes") || has(source, "torchtitan") || has(source, "Bridge");
  if (has(notes, "FULL_SHARD") || has(run.model.model.name, "ZeRO-3") ||
      has(source, "torchtitan") || has(notes, "FSDP=64")) {
    run.layout.zero = 3;
    run.work.recipe.gradient_bytes = 2;
    run.work.flat_gathers = megatron2021;
    run.work.overlap_data = true;
  } else if (has(notes, "SHARD_GRAD_OP")) {
    run.layout.zero = 2;
    run.work.recipe.gradient_bytes = 2;
  } else if (has(notes, "ZeRO-1") || has(source, "Bridge")) {
    run.layout.zero = 1;
  }
}

/// Columns that say what apply_software() infers from the names of sources. An absent or empty one changes nothing.
void apply_columns(const CsvRow& row, MeasuredRun& run) {
  const std::array yes_or_no{std::string_view("no"), std::string_view("yes")};
  const auto flag = [&](const char* column, bool& value) {
    value = row.choice(column, yes_or_no, value ? 1 : 0) == 1;
  };
  flag("sequence", run.layout.sequence);
  flag("overlap_data", run.work.overlap_data);
  flag("overlap_tensor", run.work.overlap_tensor);
  flag("overlap_pipe", run.work.overlap_pipe);
  run.layout.zero = static_cast<int>(row.choice(
      "zero", std::array<std::string_view, 4>{"0", "1", "2", "3"}, position_of(run.layout.zero)));
  run.work.attention = row.parsed("attention", parse_attention, run.work.attention);
  run.layout.schedule = row.parsed("schedule", parse_pipeline_form, run.layout.schedule);
}

void parse_schedule(const CsvRow& row, MeasuredRun& run) {
  ParallelLayout& layout = run.layout;
  const std::string name = run.model.model.name;
  layout.schedule = has(name, "ZB-2p")   ? PipelineForm::ZbH2
                    : has(name, "ZB-1p") ? PipelineForm::ZbH1
                                         : PipelineForm::OneFOneB;
  const int layers = static_cast<int>(run.model.model.layers);
  layout.chunks = lower(row.text("interleave")) == "max" ? std::max(1, (layers + 2) / layout.pipe)
                                                         : row.integer("interleave", 1);
  if (layout.chunks > 1 && layout.pipe > 1) {
    layout.schedule = PipelineForm::Interleaved;
  } else {
    layout.chunks = 1;
  }
}

void add_features(MeasuredRun& run) {
  const ParallelLayout& l = run.layout;
  const auto add = [&](bool present, const char* name) {
    if (present) {
      run.features.emplace_back(name);
    }
  };
  add(l.tensor > 1, "tensor");
  add(l.tensor > run.cluster.devices_per_node, "tensor across nodes");
  add(l.pipe > 1, "pipe");
  add(l.chunks > 1, "interleaved");
  add(l.context > 1, "context");
  add(l.zero == 3, "zero 3");
  add(l.recompute == RecomputeMode::Full, "full recomputation");
  add(l.recompute == RecomputeMode::Selective, "selective recomputation");
  add(run.work.dtype == "f8" || run.work.dtype == "f4", "8 bits or fewer");
  add(run.work.length > 4096, "long sequences");
  add(run.cluster.nodes > 1, "several nodes");
}

/// "" if the row has what the cost model needs.
std::string missing_number(const CsvRow& row) {
  for (const char* column :
       {"layers", "hidden", "heads", "seq", "gpus", "tp", "pp", "microbatch", "global_batch"}) {
    if (row.number(column) <= 0) {
      return fmt::format("no {}", column);
    }
  }
  return row.number("seconds_per_step") > 0 || row.number("mfu_pct") > 0
             ? ""
             : "no time: neither seconds_per_step nor mfu_pct";
}

struct Parser {
  MeasuredRuns result{};

  void skip(const CsvRow& row, std::string reason) {
    result.skipped.push_back({row.line(), row.text("source"), std::move(reason)});
  }

  void add(const CsvRow& row) {
    if (const std::string missing = missing_number(row); !missing.empty()) {
      return skip(row, missing);
    }
    if (has(row.text("source"), "LoRA") || has(row.text("source"), "SFT")) {
      return skip(row, "fine-tuning: not all parameters are trained, or sequences are packed");
    }
    if (row.integer("ep", 1) > 1) {
      return skip(row, "experts: no column has their number");
    }
    MeasuredRun run;
    run.line = row.line();
    run.source = row.text("source");
    run.device = row.text("gpu");
    const std::optional<Cluster> cluster = find_cluster(run.device, row.integer("gpus", 1));
    if (!cluster) {
      return skip(row, fmt::format("unknown device '{}'", run.device));
    }
    run.cluster = *cluster;
    run.model = parse_model(row);
    run.work.batch = row.integer("global_batch", 1);
    run.work.length = row.integer("seq", 0);
    run.work.dtype = parse_precision(row.text("precision"));
    const int model_ranks = row.integer("tp", 1) * row.integer("pp", 1) * row.integer("cp", 1);
    run.layout = {.data = row.integer("dp", std::max(1, row.integer("gpus", 1) / model_ranks)),
                  .tensor = row.integer("tp", 1),
                  .pipe = row.integer("pp", 1),
                  .context = row.integer("cp", 1),
                  .microbatch = row.integer("microbatch", 1),
                  .recompute = row.parsed("recompute", parse_mode, RecomputeMode::None)};
    parse_schedule(row, run);
    apply_software(row, run);
    apply_columns(row, run);
    run.published_mfu = row.number("mfu_pct");
    run.published_hfu = row.number("hfu_pct");
    run.published_tflops = row.number("tflops_per_gpu");
    run.parameters = 1e9 * row.number("params_b");
    run.seconds = row.number("seconds_per_step");
    if (!run.cluster.device.peak(run.work.dtype) || !run.cluster.device.memory_bandwidth) {
      return skip(row, fmt::format("no {} peak or bandwidth of {} is known", run.work.dtype,
                                   run.cluster.device.name));
    }
    if (run.layout.devices() != row.integer("gpus", 1)) {
      return skip(
          row, fmt::format("{} are not {} devices", mesh_text(run.layout), row.integer("gpus", 1)));
    }
    if (const std::string why = misfit(run.layout, run.model, run.work, run.cluster);
        !why.empty()) {
      return skip(row, why);
    }
    add_features(run);
    if (run.seconds <= 0) {
      const StepCost cost = predicted_cost(run, {});
      run.seconds = cost.model_flops / (cost.peak * run.published_mfu / 100);
    }
    result.runs.push_back(std::move(run));
  }
};

/// The columns of a file, and how its rows become rows of published runs.
class Columns {
 public:
  /// Throws Error(Input) if the columns are of no known kind.
  Columns(CsvFields header, std::string_view name) : columns_(std::move(header)) {
    for (std::string& column : columns_) {
      column = lower(trim(column));
    }
    is_vtrain_ = has_column("iteration time (ms)");
    if (is_vtrain_) {
      translate();
    } else if (!has_column("seconds_per_step")) {
      throw Error(
          ErrorKind::Input,
          fmt::format("{}: line 1: no column seconds_per_step or 'iteration time (ms)'; `trireme "
                      "validate --help` lists the columns",
                      name));
    }
  }

  [[nodiscard]] CsvRow row(const CsvFields& fields, int line) const {
    const CsvRow plain(columns_, fields, line);
    return is_vtrain_ ? published(plain, fields, line) : plain;
  }

 private:
  [[nodiscard]] bool has_column(std::string_view column) const {
    return std::ranges::find(columns_, column) != columns_.end();
  }

  void translate() {
    const std::map<std::string, std::string> names{{"# gpus", "gpus"},
                                                   {"global batch", "global_batch"},
                                                   {"micro batch", "microbatch"},
                                                   {"hidden size", "hidden"},
                                                   {"attention heads", "heads"},
                                                   {"# layers", "layers"},
                                                   {"sequence length", "seq"},
                                                   {"tensor parallelism", "tp"},
                                                   {"data parallelism", "dp"},
                                                   {"pipeline parallelism", "pp"},
                                                   {"iteration time (ms)", "milliseconds"}};
    for (std::string& column : columns_) {
      const auto found = names.find(column);
      column = found == names.end() ? column : found->second;
    }
  }

  /// vTrain's runs are of Megatron-LM on A100s; those on several nodes recompute activations. Those on one node are its
  /// simulator's, whose shards have the same number of whole words: 50257 divided by the degree, rounded down.
  [[nodiscard]] CsvRow published(const CsvRow& plain, const CsvFields& fields, int line) const {
    const bool single = plain.number("gpus") <= 8;
    const int tensor = plain.integer("tp", 1);
    const std::vector<std::pair<const char*, std::string>> constants{
        {"source", single ? "vTrain single (SC21 software)" : "vTrain multi (SC21 software)"},
        {"model", fmt::format("GPT {}x{}", plain.text("layers"), plain.text("hidden"))},
        {"gpu", "A100"},
        {"recompute", single ? "none" : "full"},
        {"precision", "fp16"},
        {"vocab", fmt::format("{}", single ? 50257 / tensor * tensor : 51200)},
        {"seconds_per_step", fmt::format("{}", plain.number("milliseconds") / 1000)}};
    CsvFields columns = columns_;
    CsvFields values = fields;
    values.resize(columns.size());
    for (const auto& [column, value] : constants) {
      columns.emplace_back(column);
      values.push_back(value);
    }
    return {columns, values, line};
  }

  CsvFields columns_;
  bool is_vtrain_ = false;
};

}  // namespace

std::string MeasuredRun::describe() const {
  return fmt::format("{} on {} x {}, {}, microbatch {}, batch {}", model.model.name,
                     layout.devices(), device, mesh_text(layout), layout.microbatch, work.batch);
}

MeasuredRuns parse_runs(std::string_view text, std::string_view name) {
  Parser parser;
  std::optional<Columns> columns;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) {
      continue;
    }
    if (!columns) {
      columns.emplace(split_csv(line), name);
    } else {
      parser.add(columns->row(split_csv(line), number));
    }
  }
  return std::move(parser.result);
}

}  // namespace trireme
