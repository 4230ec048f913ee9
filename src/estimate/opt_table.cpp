// The breakdown of the FLOPs of one update of the OPT models. Blocks count four forwards (with activation
// recomputation), logits three:
//
//   FLOPs = tokens (4 L (projections + 16h² + 4sh) + 3 · 2hV),   s = 2048, V = 51200
#include <cstdint>

#include "base/enum_names.h"
#include "trireme/estimate_examples.h"

namespace trireme {
namespace {

constexpr double kLength = 2048;
constexpr double kVocabulary = 51200;
constexpr double kMebi = 1 << 20;

struct Size {
  const char* name;
  double layers;
  double width;
  double mebi_tokens;  ///< per update
};

constexpr std::array<Size, 8> kSizes{{{"760M", 24, 1536, 0.5},
                                      {"1.3B", 24, 2048, 1},
                                      {"2.7B", 32, 2560, 1},
                                      {"6.7B", 32, 4096, 2},
                                      {"13B", 40, 5120, 4},
                                      {"30B", 48, 7168, 4},
                                      {"66B", 64, 9216, 2},
                                      {"175B", 96, 12288, 2}}};

OptRow row_of(const Size& size, OptFormula formula) {
  const double h = size.width;
  const double projections =
      4 * size.layers *
      (formula == OptFormula::Corrected ? 8 * h * h : 2 * h * h + 8 * kLength * h);
  const double feed_forward = 4 * size.layers * 16 * h * h;
  const double attention = 4 * size.layers * 4 * kLength * h;
  const double logits = 3 * 2 * h * kVocabulary;
  const double all = projections + feed_forward + attention + logits;
  return {.name = size.name,
          .flops_per_update = size.mebi_tokens * kMebi * all,
          .projections = 100 * projections / all,
          .feed_forward = 100 * feed_forward / all,
          .attention = 100 * attention / all,
          .logits = 100 * logits / all};
}

}  // namespace

std::array<OptRow, 8> opt_table(OptFormula formula) {
  std::array<OptRow, 8> rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows.at(i) = row_of(kSizes.at(i), formula);
  }
  return rows;
}

std::string_view to_text(OptFormula formula) {
  static constexpr auto kNames = enum_names<OptFormula>("as printed", "corrected");
  return kNames[formula];
}

}  // namespace trireme
