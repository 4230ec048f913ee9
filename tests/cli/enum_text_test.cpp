// Every public enum has a text for each of its values.
#include <cstddef>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/indexed_vector.h"
#include "trireme/assignment.h"
#include "trireme/cluster.h"
#include "trireme/collective.h"
#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/compression.h"
#include "trireme/cost.h"
#include "trireme/cpu_device.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"
#include "trireme/estimate.h"
#include "trireme/estimate_examples.h"
#include "trireme/generate.h"
#include "trireme/graph.h"
#include "trireme/launch.h"
#include "trireme/local_servers.h"
#include "trireme/measured_runs.h"
#include "trireme/model.h"
#include "trireme/op.h"
#include "trireme/parallelism.h"
#include "trireme/parameter_server.h"
#include "trireme/pipeline.h"
#include "trireme/placement.h"
#include "trireme/plan.h"
#include "trireme/planner.h"
#include "trireme/program.h"
#include "trireme/ps_cache.h"
#include "trireme/ps_chaos.h"
#include "trireme/ps_metrics.h"
#include "trireme/ps_table.h"
#include "trireme/ps_train_update.h"
#include "trireme/recompute_choice.h"
#include "trireme/repartition.h"
#include "trireme/schedule.h"
#include "trireme/shared_cores.h"
#include "trireme/sync.h"
#include "trireme/synchronization.h"
#include "trireme/tensor.h"
#include "trireme/time_variation.h"
#include "trireme/topology.h"
#include "trireme/trace.h"
#include "trireme/train.h"
#include "trireme/transport_kind.h"
#include "trireme/tuning.h"

namespace trireme {
namespace {

/// The texts of the values from 0 to the last are distinct.
template <class Enum>
void expect_distinct_texts(Enum last) {
  std::set<std::string> texts;
  for (std::size_t i = 0; i <= position_of(last); ++i) {
    const std::string text(to_text(static_cast<Enum>(i)));
    EXPECT_TRUE(!text.empty() && text != "?") << texts.size() << " texts before it";
    EXPECT_TRUE(texts.insert(text).second) << text;
  }
}

template <class... Enums>
void expect_all_distinct(Enums... lasts) {
  (expect_distinct_texts(lasts), ...);
}

TEST(EnumText, DiffersForEveryValue) {
  expect_all_distinct(
      PipeLocation::Unit::Device, Sparsity::Structured, Algorithm::TwoLevel, CommFault::Dead,
      WorldOptions::Checksums::All, Reduction::BitXor, Order::Fixed, Method::Kind::Scheduled,
      Compression::Method::Power, PipelineForm::ZbV, ParallelLayout::Order::DataOutermost,
      Workload::Attention::Unfused, TimePart::Other, CostedMemory::Communication,
      Instructions::Avx512, AfterDeath::OthersContinue, AlgorithmChoice::Reproducible,
      CudaExchange::Host, ErrorKind::Peer, Bound::Memory, OptFormula::Corrected,
      KeyValueCache::Unused, Origin::Node, Phase::Update, ps::LocalServersOptions::Run::Processes,
      FlopConvention::SixNCausal, Accounting::Compared::Tflops, Family::Llama, GateOrder::TopKFirst,
      Initial::Kind::Normal, Factor::Split::InTurn, Linear::Apart, ClassicView::Neither,
      OperatorView::Neither, ps::Encrypt::Yes, ps::CoordinatorRole::Active, PipelineWork::Update,
      WeightVersions::Previous, Merge::Maximum, Plan::Context::Ring, SearchSpace::Extent::Wide,
      SearchMethod::Mcmc, Category::Workspace, ps::Reads::Inconsistent, ps::ChaosRole::Worker,
      ps::MetricKind::Gauge, ps::Consistency::Async, ps::TableLayout::Sparse,
      ps::TrainHead::Operation::Exchange, ps::Aggregation::Mean, ps::TrainUpdate::Optimizer::AdamW,
      RecomputeMode::Full, predict::MatrixLayout::Partial, Operation::Barrier, Action::Combine,
      Layout::Pairs, SyncSpec::Kind::ServerAsync, SyncSpec::Samples::Pool,
      SyncSpec::Reads::Inconsistent, simulate::Strategy::Gossip, DType::I64,
      simulate::Jitter::Exponential, simulate::CorePlacement::Neighbors, Switching::StoreAndForward,
      Duplex::Half, TraceKind::Measured, RankKind::Threads, TransportKind::Ucx, BufferKind::Shared);
}

}  // namespace
}  // namespace trireme
