#include <numeric>

#include "trireme/program_set.h"

namespace trireme {

RankPrograms RankPrograms::one_each(std::span<const Program> programs) {
  RankPrograms all{.programs = programs,
                   .compiled_for = std::vector<int>(programs.size()),
                   .of_rank = std::vector<std::size_t>(programs.size())};
  std::iota(all.compiled_for.begin(), all.compiled_for.end(), 0);
  std::iota(all.of_rank.begin(), all.of_rank.end(), std::size_t{0});
  return all;
}

}  // namespace trireme
