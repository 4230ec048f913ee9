// What ranks send in a step, by the lower bounds of collectives: a rank of p sends 2 n (p-1)/p bytes of an all-reduce of
// n, and n (p-1)/p of an all-gather, a reduce-scatter or an all-to-all.
#include <algorithm>

#include "cost/step_counts.h"
#include "trireme/cost.h"

namespace trireme {
namespace {

/// What others have of a vector that is sharded over so many ranks.
double share_of_others(double ranks) {
  return (ranks - 1) / ranks;
}

}  // namespace

/// Of a micro-batch, forward and backward.
double TransformerCost::sent_by_block(const ParallelLayout& layout) const {
  const double passes = layout.recompute == RecomputeMode::Full ? 3 : 2;
  const double m = tokens(layout);
  const double t = layout.tensor;
  // With sequence parallelism, the backward pass gathers both sharded inputs once more.
  const double reductions = passes * 2 + (layout.sequence ? 1 : 0);
  const double reduced = reductions * 2 * share_of_others(t) * word_ * m * h_;
  const double keys = 2 * word_ * kv_ / t * m;
  const double queries = 2 * word_ * q_ / t * m;
  const double others = layout.context - 1;
  switch (layout.context_mode) {
    case Plan::Context::Gather:
      return reduced + (passes + 1) * others * keys;
    case Plan::Context::AllToAll:
      return reduced + passes * share_of_others(layout.context) * (keys + queries);
    case Plan::Context::Ring:
      return reduced + (passes + 1) * others / 2 * std::max(keys, queries);
  }
  return reduced;
}

StepTraffic TransformerCost::sent(const ParallelLayout& layout) const {
  const double n = microbatches_of(layout, work_);
  const double p = layout.pipe;
  const double parameters = parameters_per_rank(layout);
  const double to_others = share_of_others(shards(layout));
  const double rounds = layout.zero >= 2 ? n : 1;  // of gradients
  const double gathers = layout.zero == 0 ? 0 : layout.zero >= 3 ? 2 * n : 1;
  const double boundaries = (p * layout.chunks - 1) / p;  // between stages, for each rank
  // With sequence parallelism, the backward pass gathers the head's inputs once more, and the gradient of the embedding is
  // that of all words before it is reduced.
  const bool sharded = layout.sequence && layout.tensor > 1;
  const double words = sharded ? static_cast<double>(model_.model.vocabulary) : 0;
  const double ends =
      share_of_others(layout.tensor) * word_ * h_ * ((sharded ? 6 : 4) * tokens(layout) + words);
  const double dispatched = 4 * share_of_others(layout.expert) * word_ * tokens(layout) * h_ *
                            static_cast<double>(model_.model.experts_per_token) / layout.tensor;
  return {.gradient = (layout.zero == 0 ? 2 : rounds) * to_others * parameters *
                      work_.recipe.gradient_bytes,
          .parameter = gathers * to_others * parameters * word_,
          .activation = n * ((dense_blocks_ + mixture_blocks_) / p * sent_by_block(layout) +
                             mixture_blocks_ / p * dispatched + ends / p +
                             2 * boundaries * word_ * tokens(layout) * h_ / layout.tensor)};
}

}  // namespace trireme
