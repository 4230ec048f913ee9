// Generating text with a trained model, on one device or on the ranks of a plan:
//
//   trireme::GenerateOptions options;
//   options.source.run = "runs/gpt-mini-001";
//   options.prompt = "Once upon";
//   options.make_device = trireme::cpu_devices({.row_invariant = true});
//   options.on_text = [](std::string_view text) { std::cout << text << std::flush; };
//   trireme::generate(options);
//
// Each token takes one step of the model, with the keys and values of earlier tokens from a cache. On devices whose
// matrix products are row-invariant (see cpu_device.h), the tokens are bit-identical to those generated without a
// cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/device.h"
#include "trireme/draw_token.h"
#include "trireme/plan.h"
#include "trireme/train.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// Where a trained model comes from: one of the two.
struct ModelSourceOptions {
  /// The folder of a run: its best checkpoint if kept, else its newest.
  std::string run{};
  std::string model{};      ///< a Hugging Face folder with weights
  std::string tokenizer{};  ///< a tokenizer.json; "": the one in the folder, if any
};

/// Everything wrong with the options, each with a fix. Opens no files.
[[nodiscard]] std::vector<std::string> problems(const ModelSourceOptions& options);

struct GenerateSummary {
  std::string model{};
  std::vector<std::int32_t> prompt{};
  std::vector<std::int32_t> tokens{};  ///< generated
  bool ended = false;                  ///< the model generated its end-of-text token
  Seconds prompt_time{};
  Seconds time{};   ///< of the new tokens
  Bytes weights{};  ///< of the model, on all ranks together
  Bytes memory{};   ///< of rank 0
};

enum class KeyValueCache : std::uint8_t { Used, Unused };
[[nodiscard]] std::string_view to_text(KeyValueCache cache);

struct GenerateOptions {
  ModelSourceOptions source{};
  /// Text; without a tokenizer for the model's tokens, their numbers, separated by spaces.
  std::string prompt{};
  /// The maximum number of tokens to generate; if absent, 100 or as many as the model's context permits.
  std::optional<std::int64_t> tokens{};
  SamplingOptions sampling{};
  /// Without the cache, every token takes a forward pass over the whole sequence: slow, to check the cache.
  KeyValueCache cache = KeyValueCache::Used;
  Plan plan{};  ///< mesh and placements; training settings are ignored
  DeviceFactory make_device{};
  RankKind rank_kind = RankKind::Processes;
  /// Called on rank 0 once everything is checked and loaded.
  std::function<void()> on_begin{};
  /// Called on rank 0 with the text of each new token. It may be part of a UTF-8 character.
  std::function<void(std::string_view text)> on_text{};
  /// Called on rank 0 at the end.
  std::function<void(const GenerateSummary&)> on_end{};
  /// If it returns true on rank 0, generation ends early.
  std::function<bool()> should_stop{};
};

/// Everything wrong with the options, each with a fix. Opens no files.
[[nodiscard]] std::vector<std::string> problems(const GenerateOptions& options);

/// Generates on the ranks of the plan's mesh: in this process if there is one, else in forked processes or threads.
/// Throws Error(Usage or Input) on invalid options or files, or Error(Peer) that refers to a rank's message.
void generate(const GenerateOptions& options);

/// The line of `trireme generate --json`.
[[nodiscard]] std::string to_json(const GenerateSummary& summary, std::string_view text);

}  // namespace trireme
