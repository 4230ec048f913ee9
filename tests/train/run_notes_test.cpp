#include "train/run/run_notes.h"

#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "trireme/mesh.h"

namespace trireme::train {
namespace {

struct Case {
  TrainSettings settings{};
  Plan plan{};
  ModelConfig model{};

  [[nodiscard]] std::string notes() const {
    return fmt::format("{}", fmt::join(run_notes(settings, plan, model), "\n"));
  }
};

Case on_mesh(const char* mesh) {
  Case one;
  one.plan.mesh = parse_mesh(mesh);
  return one;
}

TEST(RunNotes, SayNothingAboutOptionsThatWork) {
  Case all = on_mesh("data=2,tensor=2,context=2,pipe=2");
  all.plan.zero = 3;
  all.plan.sequence = true;
  all.plan.context = Plan::Context::Ring;
  all.plan.schedule = "interleaved";
  all.plan.chunks = 2;
  all.plan.microbatches = 4;
  all.settings.validate_every = 3;
  all.settings.dtype = "bf16";
  all.settings.master = "none";
  EXPECT_EQ(all.notes(), "");
  EXPECT_EQ(Case{}.notes(), "");
}

TEST(RunNotes, NameOptionsWithoutEffect) {
  Case zero = on_mesh("tensor=2");
  zero.plan.zero = 3;
  EXPECT_EQ(zero.notes(),
            "--zero 3 has no effect: it shards along data, which the mesh does not have");
  Case chunks = on_mesh("pipe=2");
  chunks.plan.chunks = 2;
  chunks.plan.microbatches = 4;
  EXPECT_EQ(chunks.notes(), "--chunks 2 has no effect: the schedule 1f1b has one stage per rank");
  Case alone;
  alone.plan.schedule = "gpipe";
  alone.plan.chunks = 2;
  alone.plan.sequence = true;
  alone.plan.context = Plan::Context::Ring;
  alone.settings.validation = 0;
  alone.settings.validate_every = 3;
  alone.settings.master = "none";
  EXPECT_EQ(alone.notes(),
            "--sequence has no effect: it shards along tensor, which the mesh does not have\n"
            "--context ring has no effect: the mesh has no context axis\n"
            "--chunks 2 has no effect: the mesh has no pipe axis\n"
            "--schedule gpipe has no effect: the mesh has no pipe axis\n"
            "--validate-every 3 has no effect: --validation 0 sets no data aside\n"
            "--master none has no effect: f32 weights have no master copies");
}

TEST(RunNotes, NameValidationAfterEndOfRun) {
  Case late;
  late.settings.steps = 20;
  late.settings.validate_every = 21;
  EXPECT_EQ(late.notes(),
            "--validate-every 21 validates after the last step only: the run has 20 steps");
  late.settings.validate_every = 20;
  EXPECT_EQ(late.notes(), "");
}

TEST(RunNotes, NameIgnoredLanguageModelSettings) {
  Case one;
  one.settings.vocabulary = 99;
  one.settings.validation = 0.25;
  const AnyModelConfig mlp = preset_any_model("mlp");
  EXPECT_EQ(
      fmt::format("{}", fmt::join(run_notes(one.settings, one.plan, mlp), "\n")),
      "--vocabulary 99 has no effect: mlp has no vocabulary\n"
      "--validation 0.25 has no effect: validation examples are generated, not taken from the "
      "training data");
}

TEST(RunNotes, NameIgnoredValidationShare) {
  Case files;
  files.settings.validation_data = {"held-out.txt"};
  files.settings.validate_every = 3;
  files.settings.validation = 0;
  EXPECT_EQ(files.notes(), "--validation 0 has no effect: --validation-data names the data");
  files.settings.validation = TrainSettings{}.validation;
  EXPECT_EQ(files.notes(), "");
}

TEST(RunNotes, NotePerBatchBalanceLoss) {
  Case experts;
  experts.model.experts = 4;
  experts.model.balance_groups = 0;
  EXPECT_EQ(experts.notes(), "per=microbatch has no effect: the whole batch is one micro-batch");
  experts.plan.microbatches = 2;
  EXPECT_EQ(experts.notes(), "");
}

TEST(RunNotes, CheckMachine) {
  Case one;
  one.settings.threads = 500;
  one.settings.gpu_exchange = "nccl";
  const auto notes = [&](std::optional<int> cores) {
    return fmt::format("{}", fmt::join(run_notes(one.settings, one.plan, one.model, cores), "\n"));
  };
  EXPECT_EQ(notes(2),
            "--threads 500 is slower than --threads 2: this machine has 2 cores\n"
            "--gpu-exchange nccl has no effect: the run is on the CPU");
  EXPECT_EQ(notes({}), "");  // on a GPU
}

TEST(RunNotes, NameCheckpointsThatAreNotSaved) {
  Case one;
  one.settings.save_every = "0";
  one.settings.keep = 5;
  EXPECT_EQ(one.notes(), "--keep 5 has no effect: --save-every 0 saves one checkpoint, at the end");
}

TEST(RunNotes, WarnAboutIdleRanks) {
  Case data = on_mesh("data=4");
  data.settings.batch = 3;
  EXPECT_EQ(data.notes(),
            "1 of 4 ranks along data will idle: there are only 3 sequences in the batch (--batch)");
  data.settings.batch = 4;
  EXPECT_EQ(data.notes(), "");
  data.plan.microbatches = 2;
  EXPECT_EQ(data.notes(),
            "2 of 4 ranks along data will idle: there are only 2 sequences in a micro-batch "
            "(--batch, --microbatches)");
  Case pipe = on_mesh("pipe=4");
  EXPECT_EQ(pipe.notes(),
            "with one micro-batch only one of 4 pipeline stages computes at a time; use "
            "--microbatches 8 or more");
  Case tensor = on_mesh("tensor=16");
  EXPECT_EQ(tensor.notes(),
            "4 of 16 ranks along tensor will idle: there are only 12 attention heads (the model)");
  Case expert = on_mesh("expert=2");
  expert.settings.batch = 4;
  EXPECT_EQ(expert.notes(),
            "1 of 2 ranks along expert will idle: there is only 1 expert (--experts)");
}

}  // namespace
}  // namespace trireme::train
