#include "train/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoints.h"

namespace trireme::train {
namespace {

void flip_byte(const std::string& path, std::size_t at) {
  std::string content = content_of(path);
  content.at(at) = static_cast<char>(content.at(at) ^ 1);
  std::ofstream(path, std::ios::binary) << content;
}

TEST(Checkpoint, RoundTrips) {
  const TemporaryFolder folder;
  const std::string runs = folder / "a/b";
  const std::string path = save_checkpoint(runs, state_at(123));
  EXPECT_EQ(path, runs + "/step-000123");
  EXPECT_EQ(names_in(path), (Names{"manifest.json", "model.safetensors", "optimizer.safetensors"}));
  EXPECT_EQ(names_in(runs), (Names{"latest", "step-000123"}));
  EXPECT_EQ(content_of(runs + "/latest"), "step-000123\n");
  expect_whole(load_checkpoint(path), 123);
  const std::optional<LoadedCheckpoint> latest = load_latest(runs);
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->warning, "");
  expect_whole(latest->checkpoint, 123);
}

TEST(Checkpoint, WorksWithoutOptimizerState) {
  const TemporaryFolder folder;
  CheckpointState state = state_at(1);
  state.optimizer.reset();
  const std::vector<float> one{1.5F};
  state.model = tensor_set({{{"w", DType::F32, Shape{1}}, std::as_bytes(std::span(one))}});
  const Checkpoint checkpoint = load_checkpoint(save_checkpoint(folder.path(), state));
  EXPECT_FALSE(checkpoint.optimizer.has_value());
  EXPECT_TRUE(std::ranges::equal(checkpoint.model.at("w").bytes, std::as_bytes(std::span(one))));
}

TEST(Checkpoint, IsByteIdenticalWhenSavedAgain) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  for (const std::string& name : names_in(save_checkpoint(a.path(), state_at(5)))) {
    save_checkpoint(b.path(), state_at(5));
    EXPECT_EQ(content_of(a / ("step-000005/" + name)), content_of(b / ("step-000005/" + name)));
  }
}

TEST(Checkpoint, KeepsNewestAndLaterOnes) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 3, 4}) {
    save_checkpoint(folder.path(), state_at(step), {.keep = 2});
  }
  EXPECT_EQ(names_in(folder.path()), (Names{"latest", "step-000003", "step-000004"}));
  // For example, resumed from step 2: later steps belong to another run and stay.
  save_checkpoint(folder.path(), state_at(2), {.keep = 1});
  EXPECT_EQ(names_in(folder.path()),
            (Names{"latest", "step-000002", "step-000003", "step-000004"}));
  const std::optional<LoadedCheckpoint> latest = load_latest(folder.path());
  expect_whole(latest.value().checkpoint, 2);
  EXPECT_NE(latest->warning.find("step-000004 is there too"), std::string::npos) << latest->warning;
}

TEST(Checkpoint, ReplacesOneOfSameStep) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), state_at(7));
  CheckpointState other = state_at(7);
  other.info.seed = 1;
  save_checkpoint(folder.path(), other);
  EXPECT_EQ(names_in(folder.path()), (Names{"latest", "step-000007"}));
  EXPECT_EQ(load_latest(folder.path()).value().checkpoint.info.seed, 1U);
}

TEST(Checkpoint, ReportsEveryKindOfDamage) {
  const auto damage = [](const std::string& words, const auto& hurt) {
    const TemporaryFolder folder;
    const std::string path = save_checkpoint(folder.path(), state_at(1));
    hurt(path);
    expect_error(ErrorKind::Input, words, [&] { (void)load_checkpoint(path); });
  };
  damage("model.safetensors: is damaged in the tensor wte: its checksum is",
         [](const std::string& path) { flip_byte(path + "/model.safetensors", 500'000); });
  damage("model.safetensors: is damaged in its header: its checksum is",
         [](const std::string& path) { flip_byte(path + "/model.safetensors", 3); });
  damage("optimizer.safetensors: has 10 bytes; the manifest says", [](const std::string& path) {
    std::filesystem::resize_file(path + "/optimizer.safetensors", 10);
  });
  damage("model.safetensors: is missing",
         [](const std::string& path) { std::filesystem::remove(path + "/model.safetensors"); });
  damage("manifest.json: is missing",
         [](const std::string& path) { std::filesystem::remove(path + "/manifest.json"); });
  damage("manifest.json: ",
         [](const std::string& path) { std::filesystem::resize_file(path + "/manifest.json", 0); });
}

TEST(Checkpoint, HasHashOfEachTensor) {
  const TemporaryFolder folder;
  const std::string path = save_checkpoint(folder.path(), state_at(4)) + "/manifest.json";
  const Manifest manifest = parse_manifest(content_of(path), path);
  ASSERT_EQ(manifest.files.size(), 2U);
  ASSERT_EQ(manifest.files[0].tensors.size(), 2U);
  EXPECT_EQ(manifest.files[0].tensors[1].name, "b");
  const std::vector<float> b = content(5, 3);
  EXPECT_EQ(manifest.files[0].tensors[1].xxh3,
            checksum_text(checksum_of(std::as_bytes(std::span(b)))));
}

TEST(Checkpoint, DetectsAnyChangedByteOfManifest) {
  const TemporaryFolder folder;
  const std::string path = save_checkpoint(folder.path(), state_at(1));
  const std::string manifest = content_of(path + "/manifest.json");
  for (std::size_t i = 0; i < manifest.size(); ++i) {
    flip_byte(path + "/manifest.json", i);
    expect_error(ErrorKind::Input, "manifest.json: ", [&] { (void)load_checkpoint(path); });
    flip_byte(path + "/manifest.json", i);
  }
  expect_whole(load_checkpoint(path), 1);
}

TEST(Checkpoint, ReportsNewerFormat) {
  expect_error(ErrorKind::Input, "m: format is '3'; this version reads 2",
               [] { (void)parse_manifest(R"({"format": 3, "shards": []})", "m"); });
}

TEST(LoadLatest, FallsBackToOlderCheckpointAndReportsIt) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 3}) {
    save_checkpoint(folder.path(), state_at(step));
  }
  flip_byte(folder / "step-000003/model.safetensors", 1000);
  std::filesystem::remove(folder / "step-000002/optimizer.safetensors");
  const std::optional<LoadedCheckpoint> loaded = load_latest(folder.path());
  expect_whole(loaded.value().checkpoint, 1);
  for (const char* words :
       {"step-000003/model.safetensors: is damaged", "optimizer.safetensors: is missing", "loaded ",
        "step-000001, which is intact"}) {
    EXPECT_NE(loaded->warning.find(words), std::string::npos) << loaded->warning;
  }
  std::filesystem::remove(folder / "step-000001/manifest.json");
  expect_error(ErrorKind::Input, "no checkpoint is intact",
               [&] { (void)load_latest(folder.path()); });
}

TEST(LoadLatest, DistinguishesNoCheckpointFromNoneValid) {
  const TemporaryFolder folder;
  EXPECT_FALSE(load_latest(folder.path()).has_value());
  EXPECT_FALSE(load_latest(folder / "none").has_value());
  (void)folder.file("latest", "step-000001\n");
  expect_error(ErrorKind::Input, "has a file 'latest' and no checkpoint",
               [&] { (void)load_latest(folder.path()); });
}

TEST(LoadLatest, ContinuesWithoutLatestAndReportsIt) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), state_at(1));
  std::filesystem::remove(folder / "latest");
  const std::optional<LoadedCheckpoint> loaded = load_latest(folder.path());
  expect_whole(loaded.value().checkpoint, 1);
  EXPECT_NE(loaded->warning.find("latest is missing"), std::string::npos) << loaded->warning;
}

TEST(SaveCheckpoint, RejectsInvalidArguments) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::Usage, "cannot keep 0",
               [&] { save_checkpoint(folder.path(), state_at(1), {.keep = 0}); });
  expect_error(ErrorKind::Usage, "a number is negative",
               [&] { save_checkpoint(folder.path(), state_at(-1)); });
  EXPECT_TRUE(names_in(folder.path()).empty());
}

}  // namespace
}  // namespace trireme::train
