// config.json: which field is which of our sizes, and which values other fields must have, as a table for each family.
// The same rows read and write.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "model/weight_names.h"
#include "trireme/error.h"
#include "trireme/hugging_face.h"

namespace trireme {
namespace {

/// The default of a field that is missing, or null: a number, or derived from the others.
constexpr std::int64_t kFollows = 0;

struct SizeField {
  std::string_view name;
  std::int64_t ModelConfig::*member;
  std::int64_t otherwise;    ///< if it is missing
  bool nullable = false;     ///< null: derived from the others
  std::string_view alias{};  ///< another accepted name
};

struct NumberField {
  std::string_view name;
  double ModelConfig::*member;
  double otherwise;
};

/// A field that must have one of these values, as JSON, or be missing. The first is the one written, unless it is null:
/// some readers treat a present field as significant.
struct FixedField {
  std::string_view name;
  std::array<std::string_view, 2> values;
};

struct ConfigForm {
  std::string_view type;
  std::string_view architecture;
  Family family;
  bool tied;  ///< tie_word_embeddings if it is missing
  std::vector<SizeField> sizes;
  std::vector<NumberField> numbers;
  std::vector<FixedField> fixed;
};

using C = ModelConfig;

const ConfigForm& gpt2_form() {
  static const ConfigForm form{
      .type = "gpt2",
      .architecture = "GPT2LMHeadModel",
      .family = Family::Gpt2,
      .tied = true,
      .sizes = {{"vocab_size", &C::vocabulary, 50257},
                {"n_positions", &C::context, 1024, false, "max_position_embeddings"},
                {"n_embd", &C::width, 768, false, "hidden_size"},
                {"n_layer", &C::layers, 12, false, "num_hidden_layers"},
                {"n_head", &C::heads, 12, false, "num_attention_heads"},
                {"n_inner", &C::hidden, kFollows, true}},
      .numbers = {{"layer_norm_epsilon", &C::norm_epsilon, 1e-5}},
      .fixed = {{"activation_function", {R"("gelu_new")", R"("gelu_pytorch_tanh")"}},
                {"scale_attn_weights", {"true"}},
                {"scale_attn_by_inverse_layer_idx", {"false"}},
                {"add_cross_attention", {"false"}},
                {"pruned_heads", {"null", "{}"}},
                {"quantization_config", {"null"}}}};
  return form;
}

const ConfigForm& llama_form() {
  static const ConfigForm form{
      .type = "llama",
      .architecture = "LlamaForCausalLM",
      .family = Family::Llama,
      .tied = false,
      .sizes = {{"vocab_size", &C::vocabulary, 32000},
                {"max_position_embeddings", &C::context, 2048},
                {"hidden_size", &C::width, 4096},
                {"intermediate_size", &C::hidden, 11008},
                {"num_hidden_layers", &C::layers, 32},
                {"num_attention_heads", &C::heads, 32},
                {"num_key_value_heads", &C::key_heads, kFollows, true},
                {"head_dim", &C::head_width, kFollows, true}},
      .numbers = {{"rms_norm_eps", &C::norm_epsilon, 1e-6}, {"rope_theta", &C::rope_base, 10000.0}},
      .fixed = {{"hidden_act", {R"("silu")", R"("swish")"}},
                {"attention_bias", {"false"}},
                {"mlp_bias", {"false"}},
                {"quantization_config", {"null"}}}};
  return form;
}

const ConfigForm& mixtral_form() {
  static const ConfigForm form{.type = "mixtral",
                               .architecture = "MixtralForCausalLM",
                               .family = Family::Llama,
                               .tied = false,
                               .sizes = {{"vocab_size", &C::vocabulary, 32000},
                                         {"max_position_embeddings", &C::context, 131072},
                                         {"hidden_size", &C::width, 4096},
                                         {"intermediate_size", &C::hidden, 14336},
                                         {"num_hidden_layers", &C::layers, 32},
                                         {"num_attention_heads", &C::heads, 32},
                                         {"num_key_value_heads", &C::key_heads, 8, true},
                                         {"head_dim", &C::head_width, kFollows, true},
                                         {"num_local_experts", &C::experts, 8},
                                         {"num_experts_per_tok", &C::experts_per_token, 2}},
                               .numbers = {{"rms_norm_eps", &C::norm_epsilon, 1e-5},
                                           {"rope_theta", &C::rope_base, 1e6},
                                           {"router_aux_loss_coef", &C::balance_loss, 0.001},
                                           {"capacity_factor", &C::capacity_factor, 0.0}},
                               .fixed = {{"hidden_act", {R"("silu")", R"("swish")"}},
                                         {"attention_bias", {"false"}},
                                         {"router_jitter_noise", {"0.0"}},
                                         {"quantization_config", {"null"}}}};
  return form;
}

struct DtypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<DtypeName, 4> kDtypes{{{"float32", DType::F32},
                                            {"float16", DType::F16},
                                            {"bfloat16", DType::BF16},
                                            {"float64", DType::F64}}};

/// A value for a message, on one line of reasonable length.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 80;
  const std::string text = value.dump();
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

/// A config.json being read.
class Reader {
 public:
  Reader(const Json& json, std::string_view what) : json_(json), what_(what) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::Input, fmt::format("{}: {}", what_, problem));
  }
  /// "rope_scaling is {…}; only null is supported"
  [[noreturn]] void refuse(std::string_view field, const std::string& supported) const {
    fail(fmt::format("{} is {}; {}", field, shown(*find(field)), supported));
  }

  [[nodiscard]] const Json* find(std::string_view field) const { return json_.find(field); }

  [[nodiscard]] const ConfigForm& form() const {
    if (!json_.is_object()) {
      fail("is not an object { … }");
    }
    const Json* type = find("model_type");
    if (type == nullptr) {
      fail("has no model_type; gpt2, llama and mixtral are supported");
    }
    for (const auto* form : {&gpt2_form(), &llama_form(), &mixtral_form()}) {
      if (*type == form->type) {
        return *form;
      }
    }
    refuse("model_type", "gpt2, llama and mixtral are supported");
  }

  [[nodiscard]] std::int64_t size(const SizeField& field) const {
    const std::string_view name =
        find(field.name) == nullptr && !field.alias.empty() ? field.alias : field.name;
    const Json* value = find(name);
    if (value == nullptr) {
      return field.otherwise;
    }
    if (value->is_null() && field.nullable) {
      return kFollows;
    }
    constexpr double kMax = 1U << 31U;
    const double number = value->is_number() ? value->get<double>() : 0;
    if (!(number >= 1 && number < kMax) || number != std::floor(number)) {
      refuse(name, "it must be an integer from 1 to 2^31 - 1");
    }
    return static_cast<std::int64_t>(number);
  }

  [[nodiscard]] double number(std::string_view name, double otherwise) const {
    const Json* value = find(name);
    if (value == nullptr) {
      return otherwise;
    }
    if (!value->is_number() || value->get<double>() < 0) {
      refuse(name, "it must be a number of 0 or more");
    }
    return value->get<double>();
  }

  [[nodiscard]] bool flag(std::string_view name, bool otherwise) const {
    const Json* value = find(name);
    if (value != nullptr && !value->is_boolean()) {
      refuse(name, "it must be true or false");
    }
    return value == nullptr ? otherwise : value->get<bool>();
  }

  void check(const FixedField& field) const {
    const Json* value = find(field.name);
    std::vector<std::string> allowed;
    for (const std::string_view text : field.values) {
      if (text.empty()) {
        continue;
      }
      if (value == nullptr || *value == Json::parse(text)) {
        return;
      }
      allowed.emplace_back(text);
    }
    refuse(field.name, fmt::format("only {} is supported", list_words(allowed, "or")));
  }

  /// The scaling of rotary positions is in rope_scaling or, in newer files, in rope_parameters, which may also contain
  /// their base.
  void read_rope(ModelConfig& config) const {
    for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
      const Json* value = find(field);
      if (value == nullptr || value->is_null()) {
        continue;
      }
      const Reader inner(*value, what_);
      const Json* type = value->is_object() ? inner.find("rope_type") : nullptr;
      type = type == nullptr && value->is_object() ? inner.find("type") : type;
      if (type == nullptr || *type != "default") {
        refuse(field, "only null, or the rope_type default, is supported");
      }
      config.rope_base = inner.number("rope_theta", config.rope_base);
    }
    if (config.rope_base <= 0) {
      fail(fmt::format("rope_theta is {}; it must be more than 0", config.rope_base));
    }
  }

  void check_window(const ModelConfig& config) const {
    const Json* window = find("sliding_window");
    if (window == nullptr || window->is_null() || !flag("use_sliding_window", true)) {
      return;
    }
    if (!window->is_number() || window->get<double>() < static_cast<double>(config.context)) {
      refuse(
          "sliding_window",
          fmt::format("only null, or as much as the context of {}, is supported", config.context));
    }
  }

  [[nodiscard]] DType dtype() const {
    for (const std::string_view field : {"torch_dtype", "dtype"}) {
      const Json* value = find(field);
      if (value == nullptr || value->is_null()) {
        continue;
      }
      const auto* row = std::ranges::find_if(
          kDtypes, [&](const DtypeName& known) { return *value == known.name; });
      if (row == kDtypes.end()) {
        refuse(field, "only float32, float16, bfloat16 or float64 is supported");
      }
      return row->dtype;
    }
    return DType::F32;
  }

 private:
  const Json& json_;
  std::string_view what_;
};

/// Fills in sizes that are derived from the others.
void complete(const Reader& reader, ModelConfig& config) {
  if (config.family == Family::Gpt2) {
    config.key_heads = config.heads;
    config.head_width = kFollows;
    config.hidden = config.hidden == kFollows ? 4 * config.width : config.hidden;
  }
  config.key_heads = config.key_heads == kFollows ? config.heads : config.key_heads;
  if (config.head_width == kFollows) {
    if (config.heads < 1 || config.width % config.heads != 0) {
      reader.fail(
          fmt::format("{} heads cannot share a width of {} evenly", config.heads, config.width));
    }
    config.head_width = config.width / config.heads;
  }
}

/// Whether the number of weights fits in 63 bits, with headroom for computations.
bool is_countable(const ModelConfig& c) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double block =
      real(c.heads + c.key_heads) * real(c.head_width) + 2 * real(c.experts) * real(c.hidden);
  const double rows = real(c.vocabulary) + real(c.context) + real(c.layers) * block;
  return 2 * rows * real(c.width) < 1e15;
}

void read_mixture(const Reader& reader, ModelConfig& config) {
  if (config.experts < 2) {
    reader.refuse("num_local_experts", "it must be 2 or more");
  }
  config.gate_order = GateOrder::TopKFirst;
}

[[noreturn]] void cannot_export(const ModelConfig& config, const std::string& why) {
  throw Error(ErrorKind::Usage,
              fmt::format("model {} has no Hugging Face equivalent: {}", config.name, why));
}

/// A feature of the model that no family has; "" if there is none.
std::string_view beyond_families(const ModelConfig& config) {
  if (config.family == Family::Gpt2 && config.experts > 1) {
    return "none of the families has experts in the blocks of a gpt2";
  }
  if (config.experts > 1 && config.mixture_every > 1) {
    return "none of the families has experts in some blocks only";
  }
  if (config.shared_experts > 0) {
    return "none of the families has experts that all tokens share";
  }
  if (config.noisy_router) {
    return "none of the families has a router with noise";
  }
  if (config.depth_capacity > 0) {
    return "none of the families has blocks that work on some of the tokens";
  }
  if (config.experts > 1 && config.softmax_first()) {
    return "a mixtral takes the soft-max over the experts that were chosen (top-k-first), this "
           "model over all of them";
  }
  return {};
}

const ConfigForm& form_of(const ModelConfig& config) {
  if (const std::string_view beyond = beyond_families(config); !beyond.empty()) {
    cannot_export(config, std::string(beyond));
  }
  const std::string_view family = weight_table(config).family;
  const ConfigForm& form = family == "gpt2"    ? gpt2_form()
                           : family == "llama" ? llama_form()
                                               : mixtral_form();
  if (family == "gpt2" &&
      (config.key_heads != config.heads || config.heads * config.head_width != config.width)) {
    cannot_export(config,
                  fmt::format("in a gpt2 all heads have keys and share the width, but there are {} "
                              "heads and {} key heads of {} in a width of {}",
                              config.heads, config.key_heads, config.head_width, config.width));
  }
  return form;
}

}  // namespace

ModelConfig parse_hugging_face_config(std::string_view text, std::string_view what) {
  const Json json = parse_json(text, what);
  const Reader reader(json, what);
  const ConfigForm& form = reader.form();
  ModelConfig config;
  config.name = form.type;
  config.family = form.family;
  for (const FixedField& field : form.fixed) {
    reader.check(field);
  }
  for (const SizeField& field : form.sizes) {
    config.*field.member = reader.size(field);
  }
  for (const NumberField& field : form.numbers) {
    config.*field.member = reader.number(field.name, field.otherwise);
  }
  config.tied = reader.flag("tie_word_embeddings", form.tied);
  config.dtype = reader.dtype();
  complete(reader, config);
  if (form.family == Family::Llama) {
    reader.read_rope(config);
    reader.check_window(config);
  }
  if (form.type == "mixtral") {
    read_mixture(reader, config);
  }
  if (!is_countable(config)) {
    reader.fail("has more than 1e15 weights");
  }
  if (const std::vector<std::string> found = problems(config); !found.empty()) {
    reader.fail(found.front());
  }
  return config;
}

std::string hugging_face_config(const ModelConfig& config, std::string_view original) {
  const ConfigForm& form = form_of(config);
  Json json = original.empty() ? Json::object() : parse_json(original, "config.json");
  json["architectures"] = Json::array({form.architecture});
  json["model_type"] = form.type;
  for (const SizeField& field : form.sizes) {
    json[std::string(field.name)] = config.*field.member;
    json.erase(std::string(field.alias));
  }
  for (const NumberField& field : form.numbers) {
    json[std::string(field.name)] = config.*field.member;
  }
  for (const FixedField& field : form.fixed) {
    if (field.values.front() != "null" && !json.contains(field.name)) {
      json[std::string(field.name)] = Json::parse(field.values.front());
    }
  }
  if (form.family == Family::Llama) {
    json.erase("rope_parameters");
    json["rope_scaling"] = nullptr;
  }
  json["tie_word_embeddings"] = config.tied;
  json.erase("dtype");
  const auto* dtype = std::ranges::find(kDtypes, config.dtype, &DtypeName::dtype);
  if (dtype == kDtypes.end()) {
    cannot_export(config, "its weights are not floating-point");
  }
  json["torch_dtype"] = dtype->name;
  return json.dump(2) + "\n";
}

}  // namespace trireme
