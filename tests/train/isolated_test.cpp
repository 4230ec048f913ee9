// Training on a device that the host reaches only by copies gives the losses of the CPU, bit for bit: one device, ranks
// with overlapped communication, validation, checkpoints from one device to the other.
#include <string>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "support/isolated_device.h"
#include "temporary_folder.h"
#include "train/curves.h"
#include "train/run_all.h"
#include "trireme/train.h"

namespace trireme {
namespace {

/// Every kind of model, and types that scale the loss or keep a master copy.
TEST(IsolatedTraining, LossesMatchCpu) {
  constexpr int kCurve = 10;
  const auto check = [&](const char* model, DType dtype) {
    SCOPED_TRACE(std::string(model) + " " + std::string(to_text(dtype)));
    const std::unique_ptr<Device> device = make_isolated_device();
    EXPECT_EQ(train::loss_curve(train::curve_model(model), dtype, *device, kCurve),
              train::loss_curve(train::curve_model(model), dtype, {.threads = 1, .pinned = false},
                                kCurve));
  };
  for (const char* model : {"gpt", "llama", "experts", "depths", "conv", "mlp"}) {
    check(model, DType::F32);
  }
  check("gpt", DType::BF16);
  check("gpt", DType::F16);
  check("mlp", DType::F64);
}

/// Fused ops round less often: the losses of 10 steps differ by units in the last places.
TEST(IsolatedTraining, FusedStepLossesTrackCpu) {
  constexpr int kCurve = 10;
  for (const char* model : {"gpt", "llama", "experts"}) {
    for (const auto& [dtype, tolerance] : {std::pair(DType::F32, 1e-4), {DType::BF16, 3e-2}}) {
      SCOPED_TRACE(std::string(model) + " " + std::string(to_text(dtype)));
      const std::unique_ptr<Device> device = make_isolated_device({.fusions = kAllFusions});
      const std::vector<double> fused =
          train::loss_curve(train::curve_model(model), dtype, *device, kCurve);
      const std::vector<double> cpu = train::loss_curve(train::curve_model(model), dtype,
                                                        {.threads = 1, .pinned = false}, kCurve);
      ASSERT_EQ(fused.size(), cpu.size());
      for (std::size_t step = 0; step < cpu.size(); ++step) {
        EXPECT_NEAR(fused[step], cpu[step], tolerance) << "step " << step;
      }
    }
  }
}

constexpr int kIsolatedSteps = 4;

RunOptions run_on(const DeviceFactory& devices, const std::string& mesh, int zero) {
  RunOptions options;
  options.settings.model = "gpt-nano";
  options.settings.batch = 6;
  options.settings.length = 16;
  options.settings.rate = "constant:0.003";
  options.settings.steps = kIsolatedSteps;
  options.plan.mesh = parse_mesh(mesh);
  options.plan.zero = zero;
  options.settings.validation =
      0.001;  // a few batches: every kernel of the isolated device is delayed
  options.rank_kind = RankKind::Threads;
  options.make_device = devices;
  return options;
}

class IsolatedRun : public ::testing::Test {
 protected:
  Ran run(const DeviceFactory& devices, const std::string& mesh, int zero = 0) {
    RunOptions options = run_on(devices, mesh, zero);
    options.run_folder = folder_ / std::to_string(++runs_);
    return run_all(options);
  }
  void expect_equal(const std::string& mesh, int zero) {
    SCOPED_TRACE(mesh);
    const Ran isolated = run(isolated_devices(), mesh, zero);
    const Ran cpu = run(cpu_devices(1), mesh, zero);
    EXPECT_EQ(isolated.losses, cpu.losses);
    EXPECT_EQ(isolated.summary.validation, cpu.summary.validation);
  }

  /// Half of the steps on one kind of device, then the rest on the other.
  void expect_resumed(const DeviceFactory& first, const DeviceFactory& second) {
    const Ran whole = run(cpu_devices(1), "data=2", 1);
    RunOptions half = run_on(first, "data=2", 1);
    half.run_folder = folder_ / std::to_string(++runs_);
    half.settings.steps = kIsolatedSteps / 2;
    (void)run_all(half);
    RunOptions rest = run_on(second, "data=2", 1);
    rest.resume = half.run_folder;
    const Ran resumed = run_all(rest);
    ASSERT_EQ(resumed.losses.size(), static_cast<std::size_t>(kIsolatedSteps - kIsolatedSteps / 2));
    for (const auto& [step, loss] : resumed.losses) {
      EXPECT_EQ(loss, whole.losses.at(step)) << step;
    }
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

class LongIsolatedRun : public IsolatedRun {};

TEST_F(IsolatedRun, MatchesCpu) {
  expect_equal("data=2", 3);
}
TEST_F(LongIsolatedRun, MatchesCpu) {
  expect_equal("", 0);
  expect_equal("data=2", 0);
  expect_equal("data=3", 1);
  expect_equal("tensor=2", 0);
  expect_equal("pipe=2", 0);
}

/// Each rank's program is compiled with the fusions of its device.
TEST_F(IsolatedRun, TracksCpuWhenFusing) {
  const Ran fused = run(isolated_devices({.fusions = kAllFusions}), "data=2", 3);
  const Ran cpu = run(cpu_devices(1), "data=2", 3);
  ASSERT_EQ(fused.losses.size(), cpu.losses.size());
  for (const auto& [step, loss] : fused.losses) {
    EXPECT_NEAR(loss, cpu.losses.at(step), 1e-4) << step;
  }
}

TEST_F(IsolatedRun, ResumesOnCpu) {
  expect_resumed(isolated_devices(), cpu_devices(1));
}
TEST_F(LongIsolatedRun, ResumesFromCpu) {
  expect_resumed(cpu_devices(1), isolated_devices());
}

TEST_F(IsolatedRun, RejectsInsufficientDeviceMemory) {
  const std::string message = error_message(ErrorKind::System, [&] {
    (void)run(isolated_devices({.memory = parse_bytes("1 MiB")}), "");
  });
  EXPECT_NE(message.find("1 MiB is free on isolated"), std::string::npos) << message;
}

}  // namespace
}  // namespace trireme
