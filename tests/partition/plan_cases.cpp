#include "plan_cases.h"

namespace trireme {

const std::vector<Case>& plans_of_language_models() {
  static const std::vector<Case> all{
      // Each axis alone; even and uneven.
      {.mesh = ""},
      {.mesh = "", .microbatches = 2},
      {.mesh = "", .microbatches = 3},
      {.mesh = "data=2"},
      {.mesh = "data=3"},
      {.mesh = "data=4"},
      {.mesh = "data=6"},
      {.mesh = "data=2", .microbatches = 2},
      {.mesh = "data=2", .bucket = {1}},
      {.mesh = "data=2", .microbatches = 2, .bucket = {1 << 24}},
      {.mesh = "data=2", .zero = 1},
      {.mesh = "data=2", .zero = 2},
      {.mesh = "data=2", .zero = 3},
      {.mesh = "data=3", .zero = 1},
      {.mesh = "data=3", .zero = 2},
      {.mesh = "data=3", .zero = 3},
      {.mesh = "data=4", .zero = 3},
      {.mesh = "data=8", .zero = 3},
      {.mesh = "data=2", .microbatches = 2, .zero = 1},
      {.mesh = "data=2", .microbatches = 2, .zero = 2},
      {.mesh = "data=2", .microbatches = 2, .zero = 3},
      {.mesh = "data=3", .microbatches = 2, .zero = 2},
      {.mesh = "tensor=2"},
      {.mesh = "tensor=3"},
      {.mesh = "tensor=4"},
      {.mesh = "tensor=6"},
      {.mesh = "tensor=2", .sequence = true},
      {.mesh = "tensor=3", .sequence = true},
      {.mesh = "tensor=4", .sequence = true},
      {.mesh = "tensor=2", .microbatches = 2},
      {.mesh = "context=2"},
      {.mesh = "context=3"},
      {.mesh = "context=4"},
      {.mesh = "context=2", .context = Plan::Context::AllToAll},
      {.mesh = "context=3", .context = Plan::Context::AllToAll},
      {.mesh = "context=4", .context = Plan::Context::AllToAll},
      {.mesh = "context=2", .context = Plan::Context::Ring},
      {.mesh = "context=3", .context = Plan::Context::Ring},
      {.mesh = "context=4", .context = Plan::Context::Ring},
      {.mesh = "context=8", .context = Plan::Context::Ring},  // some ranks have nothing
      {.mesh = "context=3", .microbatches = 2, .context = Plan::Context::Ring},
      {.mesh = "pipe=2"},
      {.mesh = "pipe=3"},
      {.mesh = "pipe=4"},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "naive"},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "gpipe"},
      {.mesh = "pipe=2", .microbatches = 4},
      {.mesh = "pipe=4", .microbatches = 4},
      {.mesh = "pipe=2", .microbatches = 4, .stage_blocks = {3, 1}},
      {.mesh = "data=2,pipe=3", .microbatches = 2, .stage_blocks = {1, 2, 1}},
      {.mesh = "pipe=3", .microbatches = 2, .schedule = "gpipe"},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "interleaved", .chunks = 2},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "zb-h1"},
      {.mesh = "pipe=4", .microbatches = 4, .schedule = "zb-h1"},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "zb-v"},
      {.mesh = "pipe=2", .microbatches = 2, .schedule = "chimera"},
      {.mesh = "pipe=4", .microbatches = 4, .schedule = "chimera"},
      // Pairs.
      {.mesh = "data=2,tensor=2"},
      {.mesh = "tensor=2,data=2"},
      {.mesh = "data=3,tensor=2"},
      {.mesh = "data=2,tensor=2", .zero = 1},
      {.mesh = "data=2,tensor=2", .zero = 2, .sequence = true},
      {.mesh = "data=2,tensor=2", .zero = 3, .sequence = true},
      {.mesh = "data=2,tensor=3", .zero = 3},
      {.mesh = "data=2,tensor=2", .microbatches = 2, .zero = 2},
      {.mesh = "data=2,context=2"},
      {.mesh = "data=2,context=3", .zero = 3},
      {.mesh = "tensor=2,context=2"},
      {.mesh = "tensor=2,context=2", .context = Plan::Context::AllToAll},
      {.mesh = "data=2,context=2", .microbatches = 2, .context = Plan::Context::AllToAll},
      {.mesh = "tensor=2,context=2", .sequence = true},
      {.mesh = "tensor=2,context=2", .context = Plan::Context::Ring},
      {.mesh = "context=3,tensor=2", .sequence = true, .context = Plan::Context::Ring},
      {.mesh = "data=2,context=3", .zero = 3, .context = Plan::Context::Ring},
      {.mesh = "data=2,context=2", .microbatches = 2, .zero = 2, .context = Plan::Context::Ring},
      {.mesh = "pipe=2,context=3", .microbatches = 2, .context = Plan::Context::Ring},
      {.mesh = "pipe=2,context=2",
       .microbatches = 4,
       .schedule = "zb-h1",
       .context = Plan::Context::Ring},
      {.mesh = "data=2,pipe=2", .microbatches = 2},
      {.mesh = "pipe=2,data=2", .microbatches = 2, .zero = 1},
      {.mesh = "pipe=2,data=2", .microbatches = 2, .zero = 2},
      {.mesh = "pipe=2,data=2", .microbatches = 2, .zero = 3},
      {.mesh = "pipe=2,data=3", .microbatches = 2, .schedule = "gpipe", .zero = 3},
      {.mesh = "pipe=2,data=2", .microbatches = 2, .schedule = "zb-h1", .zero = 2},
      {.mesh = "pipe=2,tensor=2", .microbatches = 4},
      {.mesh = "pipe=2,tensor=2", .microbatches = 4, .schedule = "zb-v", .sequence = true},
      {.mesh = "pipe=2,context=2", .microbatches = 2},
      {.mesh = "data=2,pipe=2", .microbatches = 4, .schedule = "chimera", .zero = 1},
      {.mesh = "pipe=2,data=2", .microbatches = 2, .schedule = "chimera", .zero = 3},
      {.mesh = "pipe=2,tensor=2", .microbatches = 3, .schedule = "chimera", .sequence = true},
      {.mesh = "pipe=4,data=2", .microbatches = 4},
      // Triples.
      {.mesh = "data=2,pipe=2,tensor=2", .microbatches = 2},
      {.mesh = "data=2,pipe=2,tensor=2", .microbatches = 2, .zero = 1},
      {.mesh = "data=2,pipe=2,tensor=2", .microbatches = 2, .zero = 3, .sequence = true},
      {.mesh = "data=2,context=2,tensor=2"},
      {.mesh = "data=2,context=2,tensor=2", .zero = 1, .context = Plan::Context::Ring},
      {.mesh = "data=2,pipe=2,context=2",
       .microbatches = 2,
       .schedule = "gpipe",
       .zero = 2,
       .context = Plan::Context::Ring},
      {.mesh = "data=2,context=2,tensor=2", .zero = 2, .sequence = true},
      {.mesh = "pipe=2,context=2,tensor=2",
       .microbatches = 2,
       .schedule = "interleaved",
       .chunks = 2},
  };
  return all;
}

const std::vector<Case>& plans_of_experts() {
  static const std::vector<Case> all{
      {.mesh = "data=2"},
      {.mesh = "data=3", .zero = 3},
      {.mesh = "", .microbatches = 2, .schedule = "gpipe"},
      {.mesh = "expert=2"},
      {.mesh = "expert=3"},
      {.mesh = "expert=4"},
      {.mesh = "expert=2", .microbatches = 2, .schedule = "gpipe"},
      {.mesh = "expert=2", .zero = 1},
      {.mesh = "data=2,expert=2"},
      {.mesh = "data=2,expert=2", .zero = 2},
      {.mesh = "data=2,expert=3", .zero = 3},
      {.mesh = "expert=2,tensor=2"},
      {.mesh = "expert=2,tensor=2", .sequence = true},
      {.mesh = "data=2,expert=2,tensor=2", .zero = 1},
      {.mesh = "tensor=2"},
      {.mesh = "tensor=4"},
      {.mesh = "context=2"},
      {.mesh = "context=2", .context = Plan::Context::Ring},
      {.mesh = "pipe=2", .microbatches = 2, .schedule = "gpipe"},
      {.mesh = "pipe=2,expert=2", .microbatches = 2, .schedule = "gpipe"},
      {.mesh = "pipe=2,expert=2,data=2", .microbatches = 2, .schedule = "gpipe", .zero = 1},
  };
  return all;
}

const std::vector<Case>& plans_of_examples() {
  static const std::vector<Case> all{
      {.mesh = "data=2"},
      {.mesh = "data=3"},
      {.mesh = "data=4", .zero = 1},
      {.mesh = "data=2", .zero = 2},
      {.mesh = "data=3", .zero = 3},
      {.mesh = "", .microbatches = 3},
      {.mesh = "tensor=2"},
      {.mesh = "tensor=3"},
      {.mesh = "data=2,tensor=2", .zero = 3},
      {.mesh = "data=2,tensor=3", .microbatches = 2},
      {.mesh = "pipe=2", .microbatches = 3},
      {.mesh = "pipe=2", .microbatches = 3, .schedule = "zb-h1"},
      {.mesh = "pipe=2", .microbatches = 3, .schedule = "chimera"},
      {.mesh = "pipe=2,data=2", .microbatches = 3, .schedule = "gpipe", .zero = 2},
      {.mesh = "data=2,pipe=2,tensor=2", .microbatches = 2, .zero = 1},
  };
  return all;
}

std::vector<Case> every_nth(const std::vector<Case>& all, std::size_t n, std::size_t first) {
  std::vector<Case> some;
  for (std::size_t i = first; i < all.size(); i += n) {
    some.push_back(all[i]);
  }
  return some;
}

}  // namespace trireme
