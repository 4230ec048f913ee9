#include "trireme/generate.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/json.h"
#include "base/text.h"
#include "train/clock.h"
#include "train/generate/decoder.h"
#include "train/generate/inference_ranks.h"
#include "train/generate/source.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

using train::Clock;
using train::CompiledDecoder;
using train::Decoder;
using train::ModelSource;

constexpr std::int64_t kDefaultTokens = 100;
/// Sums over keys use blocks of this size; whole blocks make them independent of the number of requested tokens.
constexpr std::int64_t kKeyBlock = 64;

/// What to generate: checked, and the same on all ranks.
struct Request {
  std::vector<std::int32_t> prompt{};
  std::int64_t tokens = 0;
  std::int64_t capacity = 0;
};

Request make_request(const GenerateOptions& options, const ModelSource& source) {
  Request request;
  request.prompt = source.codec->encode(options.prompt);
  const auto given = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t context = source.config.context;
  require(given > 0, "--prompt is empty; give at least one token to continue");
  for (const std::int32_t token : request.prompt) {
    require(token < source.config.vocabulary,
            fmt::format("--prompt: token {} is beyond the model's vocabulary of {}", token,
                        source.config.vocabulary));
  }
  request.tokens = options.tokens.value_or(std::min(kDefaultTokens, context - given));
  require(request.tokens > 0 && given + request.tokens <= context,
          fmt::format("the prompt has {}; with --tokens {} the text is longer than the "
                      "model's context of {}: use a shorter prompt or fewer tokens",
                      plural(given, "token"), options.tokens.value_or(kDefaultTokens), context));
  request.capacity =
      std::min(context, (given + request.tokens + kKeyBlock - 1) / kKeyBlock * kKeyBlock);
  return request;
}

/// One rank's part in generating a text.
class Generation {
 public:
  Generation(const GenerateOptions& options, const ModelSource& source, const Request& request,
             Communicator* communicator)
      : options_(options), source_(source), request_(request), communicator_(communicator) {}

  void run(Decoder& decoder) {
    GenerateSummary summary;
    summary.model = source_.name;
    summary.prompt = request_.prompt;
    if (leads() && options_.on_begin) {
      options_.on_begin();
    }
    const Clock::time_point start = Clock::now();
    for (const std::int32_t token : request_.prompt) {
      decoder.append(token);
    }
    std::span<const float> logits = decoder.logits();
    summary.prompt_time = train::since(start);
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < request_.tokens; ++i) {
      const std::int32_t token = next(logits, i);
      summary.ended = token >= 0 && source_.codec->ends(token);
      if (token < 0 || summary.ended) {
        break;
      }
      summary.tokens.push_back(token);
      show(token);
      if (i + 1 < request_.tokens) {
        decoder.append(token);
        logits = decoder.logits();
      }
    }
    summary.time = train::since(begin);
    summary.memory = decoder.memory();
    summary.weights = decoder.weights();
    if (leads() && options_.on_end) {
      options_.on_end(summary);
    }
  }

 private:
  [[nodiscard]] bool leads() const {
    return communicator_ == nullptr || communicator_->rank() == 0;
  }

  /// Rank 0 draws it; -1: the program wants to stop.
  [[nodiscard]] std::int32_t next(std::span<const float> logits, std::int64_t index) const {
    std::int32_t token = -1;
    if (leads() && !(options_.should_stop && options_.should_stop())) {
      token = draw_token(logits, options_.sampling, index);
    }
    if (communicator_ != nullptr) {
      communicator_->all().run(broadcast<std::int32_t>(std::span(&token, 1), 0));
    }
    return token;
  }

  void show(std::int32_t token) const {
    if (leads() && options_.on_text) {
      options_.on_text(source_.codec->text_of(token));
    }
  }

  const GenerateOptions& options_;
  const ModelSource& source_;
  const Request& request_;
  Communicator* communicator_;
};

}  // namespace

std::vector<std::string> problems(const GenerateOptions& o) {
  std::vector<std::string> found = problems(o.sampling);
  if (o.tokens && *o.tokens < 1) {
    found.push_back(fmt::format("--tokens is {}; it must be 1 or more", *o.tokens));
  }
  std::ranges::copy(problems(o.source), std::back_inserter(found));
  if (!o.make_device) {
    found.emplace_back("GenerateOptions::make_device is empty; use cpu_devices()");
  }
  return found;
}

void generate(const GenerateOptions& options) {
  require_valid(options);
  const ModelSource source = train::open_model_source(options.source);
  const Request request = make_request(options, source);
  const CompiledDecoder compiled = train::compile_decoder({.config = source.config,
                                                           .plan = options.plan,
                                                           .capacity = request.capacity,
                                                           .cache = options.cache});
  const auto body = [&](Device& device, Communicator* communicator) {
    Decoder decoder(compiled, source, device, communicator);
    Generation(options, source, request, communicator).run(decoder);
  };
  train::run_inference(
      {.mesh = options.plan.mesh, .make_device = options.make_device, .kind = options.rank_kind},
      body);
}

std::string to_json(const GenerateSummary& summary, std::string_view text) {
  const auto rate = [](std::size_t count, Seconds time) {
    return time.count > 0 ? Json(static_cast<double>(count) / time.count) : Json();
  };
  Json json;
  json["model"] = summary.model;
  json["text"] = text;
  json["prompt_tokens"] = summary.prompt.size();
  json["tokens"] = summary.tokens;
  json["ended"] = summary.ended;
  json["prompt_tokens_per_second"] = rate(summary.prompt.size(), summary.prompt_time);
  json["tokens_per_second"] = rate(summary.tokens.size(), summary.time);
  json["weight_bytes"] = summary.weights.count;
  json["peak_memory_bytes"] = summary.memory.count;
  return json.dump();
}

std::string_view to_text(KeyValueCache cache) {
  static constexpr auto kNames = enum_names<KeyValueCache>("used", "unused");
  return kNames[cache];
}

}  // namespace trireme
