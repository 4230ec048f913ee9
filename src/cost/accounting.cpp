#include <algorithm>
#include <array>

#include "base/enum_names.h"
#include "trireme/measured_runs.h"

namespace trireme {
namespace {

constexpr double kTera = 1e12;

/// How a source counts, by a word of its name, and which of its figures to compare with.
struct SourceRow {
  std::string_view source;
  FlopConvention convention;
  Accounting::Compared compared;
};
constexpr std::array kSources{
    SourceRow{"Megatron-LM SC21", FlopConvention::MegatronHardware, Accounting::Compared::Tflops},
    SourceRow{"Megatron-LM images/tables.tex", FlopConvention::MegatronHardware,
              Accounting::Compared::Tflops},
    SourceRow{"Korthikanti", FlopConvention::MegatronModel, Accounting::Compared::Utilization},
    SourceRow{"MosaicML", FlopConvention::SixNAttention, Accounting::Compared::Utilization},
    SourceRow{"llm.c", FlopConvention::SixNCausal, Accounting::Compared::Utilization}};

/// Of a whole step.
double step_flops(const MeasuredRun& run, FlopConvention convention) {
  const ModelConfig& m = run.model.model;
  const auto h = static_cast<double>(m.width);
  const auto layers = static_cast<double>(m.layers);
  const auto s = static_cast<double>(run.work.length);
  const auto v = static_cast<double>(m.vocabulary);
  const double tokens = static_cast<double>(run.work.batch) * s;
  switch (convention) {
    case FlopConvention::MegatronHardware:
      return 96 * tokens * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h));
    case FlopConvention::MegatronModel:
      return 72 * tokens * layers * h * h * (1 + s / (6 * h) + v / (12 * layers * h));
    case FlopConvention::SixNAttention:
      return tokens * (6 * run.parameters + 12 * layers * h * s);
    case FlopConvention::SixNCausal:
      return tokens * (6 * run.parameters + 6 * layers * h * s);
  }
  return 0;
}

}  // namespace

std::string_view to_text(FlopConvention convention) {
  static constexpr auto kNames =
      enum_names<FlopConvention>("96BsLh²(1 + s/6h + V/16Lh)", "72BsLh²(1 + s/6h + V/12Lh)",
                                 "6N + 12Lhs per token", "6N + 6Lhs per token");
  return kNames[convention];
}

double Accounting::difference() const {
  return compared == Compared::Utilization ? utilization - published
                                           : 100 * (tflops / published - 1);
}

std::optional<Accounting> account(const MeasuredRun& run) {
  const auto* const row = std::ranges::find_if(
      kSources, [&](const SourceRow& r) { return run.source.starts_with(r.source); });
  if (row == kSources.end()) {
    return std::nullopt;
  }
  const std::optional<FlopRate> peak = run.cluster.device.peak(run.work.dtype);
  Accounting result{.convention = row->convention, .compared = row->compared};
  result.published =
      row->compared == Accounting::Compared::Tflops ? run.published_tflops : run.published_mfu;
  const bool needs_parameters = row->convention == FlopConvention::SixNAttention ||
                                row->convention == FlopConvention::SixNCausal;
  if (!peak || result.published <= 0 || (needs_parameters && run.parameters <= 0)) {
    return std::nullopt;
  }
  const double rate = step_flops(run, row->convention) / run.seconds / run.layout.devices();
  result.tflops = rate / kTera;
  result.utilization = 100 * rate / peak->count;
  return result;
}

}  // namespace trireme
