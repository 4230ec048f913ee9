// The worked examples. Each is one function: the inputs, the results, the caveats.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "estimate/calculators.h"
#include "estimate/durations.h"
#include "trireme/error.h"
#include "trireme/estimate.h"
#include "trireme/estimate_examples.h"
#include "trireme/message.h"

namespace trireme {
namespace {

constexpr double kBillion = 1e9;
constexpr double kTera = 1e12;

ExampleLine given(std::string what, double value, std::string text) {
  return {.what = std::move(what), .how = {}, .value = value, .text = std::move(text)};
}

ExampleLine follows(std::string what, std::string how, double value, std::string text) {
  return {.what = std::move(what), .how = std::move(how), .value = value, .text = std::move(text)};
}

std::string percent(double share) {
  return fmt::format("{:.4g} %", 100 * share);
}

std::string billions(double count) {
  return fmt::format("{:.4g} B", count / kBillion);
}

FlopRate dense_peak(const char* device, const char* dtype) {
  const std::optional<FlopRate> peak = device_preset(device).peak(dtype);
  if (!peak) {
    throw Error(ErrorKind::Usage, fmt::format("{} has no {} peak", device, dtype));
  }
  return *peak;
}

Example intensity() {
  const double side = 4096;
  const double product = matmul_intensity(side, side, side, 2);
  const double relu = elementwise_intensity(1, 2);
  const Roofline h100 = *roofline_of(device_preset("h100"), "bf16");
  const double reached = h100.attainable(relu).count;
  return {.name = "intensity",
          .title = "Arithmetic intensity and the roofline",
          .given = {given("matrix product", side, "4096 x 4096 x 4096 in bf16 (b = 2 bytes)"),
                    given("H100, dense bf16", h100.peak.count, to_text(h100.peak)),
                    given("H100, memory", h100.bandwidth.count, to_text(h100.bandwidth))},
          .results = {follows("product", "2MNK / ((MK + KN + MN) b)", product,
                              fmt::format("{:.1f} FLOP/byte", product)),
                      follows("ReLU", "n / (2 n b)", relu, fmt::format("{:.2f} FLOP/byte", relu)),
                      follows("ridge", "peak / bandwidth", h100.ridge(),
                              fmt::format("{:.0f} FLOP/byte", h100.ridge())),
                      follows("ReLU at best", "min(peak, intensity x bandwidth)", reached,
                              fmt::format("{}, {} of the peak", to_text(FlopRate{reached}),
                                          percent(reached / h100.peak.count)))},
          .tables = {},
          .notes = {"Above the ridge an op is compute-bound, below it memory-bound."}};
}

Example mfu() {
  const double share = utilization(1e12, {10}, {1e13});
  return {.name = "mfu",
          .title = "MFU: what part of the peak was used",
          .given = {given("FLOPs of the model", 1e12, "1e12"), given("time", 10, "10 s"),
                    given("peak", 1e13, "1e13 FLOP/s")},
          .results = {follows("MFU", "(FLOPs / time) / peak = 1e11 / 1e13", share, percent(share)),
                      follows("MFU of 4 devices", "(FLOPs / time) / (4 peak)",
                              utilization(1e12, {10}, {1e13}, 4),
                              percent(utilization(1e12, {10}, {1e13}, 4)))},
          .tables = {},
          .notes = {"P devices have P times the peak.",
                    "A peak with sparsity, twice the dense one, would halve the MFU."}};
}

/// Measured on one H200 with a compiled PyTorch 2.11: 532 thousand tokens per second.
Example four_steps() {
  const Architecture small = architecture("gpt2-small");
  const double tokens = 64 * 1024;
  const double tokens_per_second = 532e3;
  const double flops = tokens * training_flops(small, 1024).model;
  const double time = tokens / tokens_per_second;
  const FlopRate peak = dense_peak("h200", "bf16");
  const double share = utilization(flops, {time}, peak);
  return {
      .name = "four-steps",
      .title = "MFU in four steps: GPT-2 small on an H200",
      .given = {given("model", 0, "gpt2-small, 64 sequences of 1024 tokens"),
                given("measured", tokens_per_second, "532 thousand tokens/s")},
      .results = {follows("1 FLOPs", "tokens x 3 (24h²L + 4shL + 2hV)", flops,
                          fmt::format("{:.4g} TFLOP a step", flops / kTera)),
                  follows("2 time", "65536 tokens / 532e3 tokens/s", time,
                          fmt::format("{:.4g} s a step", time)),
                  follows("3 peak", "H200, bf16 on matrix units, dense", peak.count, to_text(peak)),
                  follows("4 MFU", "FLOPs / time / peak", share, percent(share))},
      .tables = {},
      .notes = {
          "trireme estimate --model gpt2-small --batch 64 --device h200 --step-time 0.1232s"}};
}

Example peaks() {
  const DeviceSpec h100 = device_preset("h100");
  Example e{.name = "peaks",
            .title = "Peak rates of an H100 SXM, dense and sparse",
            .given = {},
            .results = {},
            .tables = {{.title = "TFLOP/s (TOP/s for i8)",
                        .columns = {"type", "dense", "sparse"},
                        .rows = {}}},
            .notes = {"Data sheets print the sparse rates (2:4 sparsity), with the reason in a "
                      "footnote. Training is "
                      "dense: half of it.",
                      "Sparse TF32 and dense BF16 are the same number, 989.4: an easy mix-up.",
                      "Source: " + h100.source}};
  for (const Peak& peak : h100.peaks) {
    const auto text = [](const std::optional<FlopRate>& rate) {
      return rate ? fmt::format("{:.1f}", rate->count / kTera) : std::string("-");
    };
    e.tables[0].rows.push_back({peak.dtype, text(peak.dense), text(peak.sparse)});
  }
  const double dense = dense_peak("h100", "bf16").count;
  e.results.push_back(
      follows("H100, bf16, dense", "", dense, fmt::format("{:.1f} TFLOP/s", dense / kTera)));
  return e;
}

Example typical() {
  Example e{.name = "typical",
            .title = "Is my MFU typical?",
            .given = {},
            .results = {},
            .tables = {{.title = "",
                        .columns = {"device", "dense f16 peak", "typical MFU"},
                        .rows = {},
                        .ends_in_words = true}},
            .notes = {"112 TFLOP/s is the V100 for PCIe; the SXM2 one has 125.",
                      "A step time turns it into a verdict: trireme estimate … --step-time 0.35s"}};
  for (const char* name : {"v100-pcie", "v100", "a100", "h100", "b200"}) {
    const std::optional<TypicalMfu> known = typical_mfu(name);
    e.tables[0].rows.push_back(
        {name, to_text(dense_peak(name, "f16")), known ? known->note : "unknown"});
  }
  return e;
}

Example recomputation() {
  const Architecture gpt3 = architecture("gpt3-175b");
  const TrainingFlops none = training_flops(gpt3, 2048);
  const TrainingFlops full = training_flops(gpt3, 2048, RecomputeMode::Full);
  const TrainingFlops some = training_flops(gpt3, 2048, RecomputeMode::Selective);
  return {
      .name = "recompute",
      .title = "MFU and HFU when activations are recomputed",
      .given = {given("backward", 2, "2 forwards"),
                given("rho", 1, "share of the forward that is recomputed")},
      .results = {follows("no recomputation", "3 / 3", mfu_over_hfu(0),
                          fmt::format("MFU = {:.4g} HFU", mfu_over_hfu(0))),
                  follows("full recomputation", "3 / (3 + 1)", mfu_over_hfu(1),
                          fmt::format("MFU = {:.4g} HFU", mfu_over_hfu(1))),
                  follows("GPT-3, full", "logits are not recomputed", none.model / full.hardware,
                          fmt::format("MFU = {:.4g} HFU", none.model / full.hardware)),
                  follows("GPT-3, selective", "only attention is recomputed",
                          none.model / some.hardware,
                          fmt::format("MFU = {:.4g} HFU", none.model / some.hardware))},
      .tables = {},
      .notes = {"HFU counts executed FLOPs, MFU model FLOPs: 3 / (3 + rho).",
                "See it counted: trireme estimate --model gpt2-small --recompute full"}};
}

/// Three small graphs of the same sizes; the share of the peak that the roofline allows.
Example friendly() {
  const Roofline h100 = *roofline_of(device_preset("h100"), "bf16");
  const double n = 4096;
  const double product_flops = 2 * n * n * n;
  const double product_time = h100.time(product_flops, 3 * n * n * 2).count;
  const double pass_time = h100.time(n * n, 2 * n * n * 2).count;
  const auto share = [&](double time) { return utilization(product_flops, {time}, h100.peak); };
  const double alone = share(product_time);
  const double four = share(product_time + 4 * pass_time);
  const double fused = share(product_time + pass_time);
  return {
      .name = "friendly",
      .title = "Ops that are friendly to MFU, and ops that are not",
      .given = {given("device", 0,
                      "H100, bf16: " + to_text(h100.peak) + ", " + to_text(h100.bandwidth)),
                given("sizes", n, "4096 x 4096 matrices")},
      .results = {follows("one product", "compute-bound: 2n³ / peak", alone, percent(alone)),
                  follows("product, 4 element-wise", "each moves 4n² bytes: memory-bound", four,
                          percent(four)),
                  follows("the 4 fused into one", "one pass over memory instead of four", fused,
                          percent(fused))},
      .tables = {},
      .notes = {"The best MFU at the roofline; kernels, launches and communication come on top."}};
}

Example transformer() {
  const Architecture gpt3 = architecture("gpt3-175b");
  const TokenFlops forward = forward_flops(gpt3, 2048);
  const TrainingFlops train = training_flops(gpt3, 2048);
  const TrainingFlops full = training_flops(gpt3, 2048, RecomputeMode::Full);
  const auto n = static_cast<double>(count_parameters(gpt3).total());
  const auto giga = [](double flops) { return fmt::format("{:.4g} GFLOP", flops / kBillion); };
  return {
      .name = "transformer",
      .title = "FLOPs of a transformer, part by part: GPT-3 175B",
      .given = {given("sizes", 0, "L = 96 layers, h = 12288, s = 2048 tokens, V = 50257"),
                given("parameters", n, billions(n))},
      .results = {follows("projections", "8h²L", forward.projections, giga(forward.projections)),
                  follows("attention", "4shL", forward.attention, giga(forward.attention)),
                  follows("feed-forward", "16h²L", forward.feed_forward,
                          giga(forward.feed_forward)),
                  follows("logits", "2hV", forward.logits, giga(forward.logits)),
                  follows("forward", "the sum, for each token", forward.total(),
                          giga(forward.total())),
                  follows("training", "3 forwards", train.model, giga(train.model)),
                  follows("causal", "attention halved", train.causal, giga(train.causal)),
                  follows("full recomputation", "4 forwards, logits 3", full.hardware,
                          giga(full.hardware)),
                  follows("6N", "6 x parameters", train.six_n, giga(train.six_n)),
                  follows("training / 6N", "", train.model / train.six_n,
                          fmt::format("{:.4f}", train.model / train.six_n))},
      .tables = {},
      .notes = {}};
}

ExampleTable opt_example_table(OptFormula formula, std::string title) {
  ExampleTable table{
      .title = std::move(title),
      .columns = {"model", "FLOPs/update", "MHA %", "FFN %", "attention %", "logit %"},
      .rows = {}};
  const bool printed = formula == OptFormula::AsPrinted;
  for (const OptRow& row : opt_table(formula)) {
    const auto whole = [&](double share) {
      return printed ? fmt::format("{:.0f}", share) : fmt::format("{:.1f}", share);
    };
    table.rows.push_back({row.name,
                          printed ? fmt::format("{:.1E}", row.flops_per_update)
                                  : fmt::format("{:.2E}", row.flops_per_update),
                          whole(row.projections), whole(row.feed_forward),
                          fmt::format("{:.1f}", row.attention), fmt::format("{:.1f}", row.logits)});
  }
  return table;
}

Example opt() {
  return {
      .name = "opt",
      .title = "Where the FLOPs of the OPT models go",
      .given = {given("tokens", 2048, "sequences of s = 2048; V = 51200"),
                given("blocks", 4, "4 forwards (recomputation)"), given("logits", 3, "3 forwards")},
      .results = {},
      .tables = {opt_example_table(OptFormula::AsPrinted, "as printed: MHA = 2h² + 8sh"),
                 opt_example_table(OptFormula::Corrected, "corrected: MHA = 8h²")},
      .notes = {
          "MHA are the four projections, 8h² for each token; the printed table has 2h² + 8sh.",
          "Either way the feed-forward part dominates, and more so the larger the model."}};
}

Example maverick() {
  const ParameterCount p = count_parameters(architecture("llama4-maverick"));
  const auto line = [](std::string what, std::string how, std::int64_t count) {
    const auto number = static_cast<double>(count);
    return follows(std::move(what), std::move(how), number, billions(number));
  };
  const std::int64_t outside = p.total() - p.experts - p.routers;
  return {
      .name = "maverick",
      .title = "Parameters of a mixture: Llama 4 Maverick",
      .given = {given("sizes", 0, "48 layers of 5120, 40 heads of 128 (8 KV), V = 202048"),
                given("experts", 128,
                      "128 of hidden 8192 and 1 shared, in every 2nd layer; else 16384")},
      .results = {line("attention", "48 (2 x 5120 x 5120 + 2 x 5120 x 1024)", p.attention),
                  line("feed-forward", "24 x 3 x 5120 x 16384, and 24 shared experts",
                       p.feed_forward),
                  line("routed experts", "24 x 128 x 3 x 5120 x 8192", p.experts),
                  line("embedding and head", "2 x 202048 x 5120", p.embedding + p.head),
                  line("total", "with routers and norms", p.total()),
                  line("outside routed experts", "all but them and their routers", outside),
                  line("active", "and 1 of the 128 in 24 layers", outside + p.experts_for_a_token),
                  line("routers", "24 x 128 x 5120, on top of the last two", p.routers)},
      .tables = {},
      .notes = {
          "14B is sometimes given as active; it counts only what is outside the routed experts. "
          "Meta says 17B."}};
}

Example gpt4() {
  const double flops = 2e25;
  const FlopRate b200 = dense_peak("b200", "f16");
  const double time = run_time(flops, b200).count;
  const double many = devices_needed(flops, b200, 0.4, {90 * kDay});
  return {.name = "gpt4",
          .title = "How long would one device train GPT-4?",
          .given = {given("FLOPs", flops, "2.0e25 (an estimate)"),
                    given("B200, dense f16", b200.count, to_text(b200))},
          .results = {follows("time", "FLOPs / peak", time, fmt::format("{:.4g} s", time)),
                      follows("years", "of 365.25 days", time / kYear,
                              fmt::format("{:.1f} years", time / kYear)),
                      follows("years of 365 days", "", time / (365 * kDay),
                              fmt::format("{:.1f} years", time / (365 * kDay))),
                      follows("devices for 90 days", "at 40 % MFU: FLOPs / (0.4 peak x 90 d)", many,
                              fmt::format("{:.0f} B200", many))},
          .tables = {},
          .notes = {"The years are those of a device at 100 % MFU, which none reaches."}};
}

Example llama65b() {
  const double parameters = 65e9;
  const double bytes = 457e9;
  const double each = bytes / parameters;
  const double fits = 192e9 / each;
  Example e{
      .name = "llama65b",
      .title = "How large a model fits into 192 GB?",
      .given = {given("model", parameters, "65 B parameters"),
                given("memory to train it", bytes, "457 GB (as printed)"),
                given("device", 192e9, "192 GB")},
      .results = {follows("bytes per parameter", "457 / 65", each, fmt::format("{:.2f}", each)),
                  follows("fits", "192 GB / 7.03", fits, billions(fits))},
      .tables = {{.title = "by what is kept for each parameter, without activations",
                  .columns = {"recipe", "bytes", "65 B need", "192 GB hold"},
                  .rows = {}}},
      .notes = {"457 GB is not Adam's memory, which is 16 bytes for each parameter. Its recipe is "
                "not known."}};
  for (const MemoryRecipe& recipe : memory_recipes()) {
    e.tables[0].rows.push_back({recipe.name, fmt::format("{:g}", recipe.total()),
                                fmt::format("{:.0f} GB", recipe.total() * parameters / kBillion),
                                billions(192e9 / recipe.total())});
  }
  const double adam = memory_recipes().front().total();
  e.results.push_back(follows("mixed-precision Adam", "16 x 65 B", adam * parameters,
                              fmt::format("{:.0f} GB", adam * parameters / kBillion)));
  e.results.push_back(
      follows("fits with Adam", "192 GB / 16", 192e9 / adam, billions(192e9 / adam)));
  return e;
}

Example resnet() {
  const int workers = 256;
  const ByteRate link{300e9};
  const double compute = 0.33;
  const auto line = [&](std::string what, std::string how, Seconds time) {
    return follows(std::move(what), std::move(how), time.count,
                   fmt::format("{:>9}, {:>6} of the computation", to_text(time),
                               fmt::format("{:.1f} %", 100 * time.count / compute)));
  };
  return {.name = "resnet50",
          .title = "ResNet-50 on 256 V100s: what moving gradients costs",
          .given = {given("gradients", 0.1e9, "0.1 GB"), given("workers", workers, "256"),
                    given("computation", compute, "0.33 s a step"),
                    given("bandwidth", link.count, "300 GB/s")},
          .results =
              {line("parameter server", "2 x 256 x 0.1 / 300", server_time(workers, 0.1e9, link)),
               line("with 97.5 MB", "25.6 M parameters are 97.5 MiB",
                    server_time(workers, 97.5e6, link)),
               line("with 0.0952 GB", "and 0.0952 GiB", server_time(workers, 0.0952e9, link)),
               line("binary tree of servers", "4 x 8 levels x 0.1 / 300",
                    tree_server_time(workers, 0.1e9, link)),
               line("ring all-reduce", "2 (255/256) x 0.1 / 300", ring_time(workers, 0.1e9, link)),
               line("256 sharded servers", "each has 1/256: as the ring",
                    ring_time(workers, 0.1e9, link))},
          .tables = {},
          .notes = {"By bandwidth alone. 300 GB/s is both directions of six NVLinks together; one "
                    "way it is half, and "
                    "256 devices do not share one NVLink."}};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

std::vector<Example> fixed_examples() {
  return {intensity(),   mfu(), four_steps(), peaks(),    typical(), recomputation(), friendly(),
          transformer(), opt(), resnet(),     maverick(), gpt4(),    llama65b()};
}

}  // namespace

const ExampleLine& Example::result(std::string_view what) const {
  const auto found = std::ranges::find(results, what, &ExampleLine::what);
  if (found == results.end()) {
    throw Error(ErrorKind::Usage, fmt::format("example {} has no result '{}'", name, what));
  }
  return *found;
}

std::vector<Example> all_examples() {
  std::vector<Example> all = fixed_examples();
  for (const Calculator& calculator : calculators()) {
    all.push_back(calculator.make({}));
  }
  return all;
}

Example example(std::string_view name, const ExampleInputs& set) {
  const std::string wanted = lower(name);
  for (const Calculator& calculator : calculators()) {
    if (calculator.name == wanted) {
      return calculator.make(set);
    }
  }
  std::vector<std::string> names;
  for (Example& e : fixed_examples()) {
    if (e.name == wanted) {
      require(set.empty(), fmt::format("example {} has no inputs to set", e.name));
      return std::move(e);
    }
    names.push_back(e.name);
  }
  for (const Calculator& calculator : calculators()) {
    names.emplace_back(calculator.name);
  }
  throw Error(ErrorKind::Usage, unknown_name("example", name, names));
}

}  // namespace trireme
