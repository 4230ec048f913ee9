#include "trireme/estimate_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/named_architecture.h"

namespace trireme {
namespace {

constexpr std::int64_t kLongestDefault = 8192;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::Usage, message);
}

/// The dtype of the graph; tf32 only changes how f32 is multiplied.
DType parse_graph_type(const std::string& text) {
  if (text == "tf32") {
    return DType::F32;
  }
  const DType dtype = parse_dtype(text);
  if (!is_float(dtype)) {
    refuse(fmt::format("models are not trained in {}; use bf16, f16, tf32, f32 or f64", text));
  }
  return dtype;
}

Architecture make_architecture(const EstimateOptions& o) {
  ModelSizes sizes = o.sizes;
  if (!o.family.empty()) {
    sizes.family = parsed("--family", o.family, parse_family);
  }
  if (o.length > 0 && sizes.context == 0) {
    sizes.least_context = o.length;
  }
  return resized(parsed("--model", o.model, named_architecture), sizes);
}

}  // namespace

EstimateRequest make_estimate_request(const EstimateOptions& o) {
  EstimateRequest request{.architecture = make_architecture(o),
                          .device = parsed("--device", o.device, device_preset),
                          .peak_type = o.dtype,
                          .optimizer = o.optimizer,
                          .devices = o.devices};
  const std::int64_t context = request.architecture.model.context;
  request.step = {.batch = {o.batch, o.length > 0 ? o.length : std::min(context, kLongestDefault)},
                  .dtype = parsed("--dtype", o.dtype, parse_graph_type),
                  .recompute = parsed("--recompute", o.recompute, parse_recompute_mode),
                  .optimizer = parsed("--optimizer", o.optimizer, parse_optimizer)};
  if (request.step.batch.length > context) {
    refuse(fmt::format("--length: {} tokens are more than the context of {}, {}",
                       request.step.batch.length, o.model, context));
  }
  if (!o.step_time.empty()) {
    request.step_time = parsed("--step-time", o.step_time, parse_seconds);
    if (request.step_time->count <= 0) {
      refuse("--step-time: must be more than 0");
    }
  }
  if (o.tokens > 0) {
    request.run_tokens = o.tokens;
  }
  if (o.mfu > 0) {
    request.run_mfu = o.mfu;
  }
  return request;
}

}  // namespace trireme
