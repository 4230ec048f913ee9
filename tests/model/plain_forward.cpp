#include "model/plain_forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace trireme {
namespace {

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

class Forward {
 public:
  Forward(const PlainTensors& tensors, const PlainSizes& sizes) : tensors_(tensors), s_(sizes) {}

  [[nodiscard]] std::vector<Row> gpt2(const std::vector<std::int32_t>& tokens) const {
    std::vector<Row> x;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      x.push_back(sum(line("transformer.wte.weight", tokens[t]),
                      line("transformer.wpe.weight", static_cast<std::int64_t>(t))));
    }
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) {
      const std::string at = "transformer.h." + std::to_string(layer);
      add_to(x, gpt2_attention(x, at));
      for (Row& row : x) {
        Row h = conv(layer_norm(row, at + ".ln_2"), at + ".mlp.c_fc");
        for (double& value : h) {
          const double inner =
              std::sqrt(2 / std::numbers::pi) * (value + 0.044715 * value * value * value);
          value = 0.5 * value * (1 + std::tanh(inner));
        }
        row = sum(row, conv(h, at + ".mlp.c_proj"));
      }
    }
    for (Row& row : x) {
      row = linear(layer_norm(row, "transformer.ln_f"), "transformer.wte.weight");
    }
    return x;
  }

  [[nodiscard]] std::vector<Row> llama(const std::vector<std::int32_t>& tokens) const {
    std::vector<Row> x;
    for (const std::int32_t token : tokens) {
      x.push_back(line("model.embed_tokens.weight", token));
    }
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) {
      const std::string at = "model.layers." + std::to_string(layer);
      add_to(x, llama_attention(x, at));
      for (Row& row : x) {
        const Row normed = rms_norm(row, at + ".post_attention_layernorm.weight");
        row =
            sum(row, s_.experts > 0
                         ? mixture(normed, at + ".block_sparse_moe")
                         : gated(normed, {at + ".mlp.gate_proj.weight", at + ".mlp.up_proj.weight",
                                          at + ".mlp.down_proj.weight"}));
      }
    }
    const bool tied = !tensors_.contains("lm_head.weight");
    for (Row& row : x) {
      row = linear(rms_norm(row, "model.norm.weight"),
                   tied ? "model.embed_tokens.weight" : "lm_head.weight");
    }
    return x;
  }

 private:
  struct Gated {
    std::string gate;
    std::string up;
    std::string down;
  };

  [[nodiscard]] const PlainTensor& tensor(const std::string& name) const {
    return tensors_.at(name);
  }
  [[nodiscard]] Row line(const std::string& name, std::int64_t i) const {
    const PlainTensor& table = tensor(name);
    const std::int64_t n = table.shape[1];
    return {table.data.begin() + i * n, table.data.begin() + (i + 1) * n};
  }
  static Row sum(Row a, const Row& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] += b[i];
    }
    return a;
  }
  static void add_to(std::vector<Row>& x, const std::vector<Row>& y) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      x[t] = sum(x[t], y[t]);
    }
  }
  /// y = W x, W [out, in], as in torch.nn.Linear.
  [[nodiscard]] Row linear(const Row& x, const std::string& name) const {
    const PlainTensor& w = tensor(name);
    Row y(index(w.shape[0]), 0.0);
    for (std::size_t o = 0; o < y.size(); ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[o] += static_cast<double>(w.data[o * x.size() + i]) * x[i];
      }
    }
    return y;
  }
  /// y = x W + b, W [in, out]: GPT-2's Conv1D.
  [[nodiscard]] Row conv(const Row& x, const std::string& name) const {
    const PlainTensor& w = tensor(name + ".weight");
    const PlainTensor& b = tensor(name + ".bias");
    Row y(b.data.begin(), b.data.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t o = 0; o < y.size(); ++o) {
        y[o] += x[i] * static_cast<double>(w.data[i * y.size() + o]);
      }
    }
    return y;
  }
  [[nodiscard]] Row layer_norm(Row x, const std::string& name) const {
    const double n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double variance = 0;
    for (const double value : x) {
      variance += (value - mean) * (value - mean) / n;
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean) / std::sqrt(variance + s_.epsilon) *
                 static_cast<double>(tensor(name + ".weight").data[i]) +
             static_cast<double>(tensor(name + ".bias").data[i]);
    }
    return x;
  }
  [[nodiscard]] Row rms_norm(Row x, const std::string& name) const {
    double square = 0;
    for (const double value : x) {
      square += value * value / static_cast<double>(x.size());
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] *= static_cast<double>(tensor(name).data[i]) / std::sqrt(square + s_.epsilon);
    }
    return x;
  }

  /// One head: a slice of the rows of queries, keys and values, starting at `q` and `k`.
  void attend(const std::vector<std::array<Row, 3>>& qkv, std::int64_t q, std::int64_t k,
              std::vector<Row>& y) const {
    for (std::size_t t = 0; t < qkv.size(); ++t) {
      Row scores;
      for (std::size_t u = 0; u <= t; ++u) {
        double score = 0;
        for (std::int64_t d = 0; d < s_.head_width; ++d) {
          score += qkv[t][0][index(q + d)] * qkv[u][1][index(k + d)];
        }
        scores.push_back(score / std::sqrt(static_cast<double>(s_.head_width)));
      }
      const Row shares = soft_max(scores);
      for (std::size_t u = 0; u <= t; ++u) {
        for (std::int64_t d = 0; d < s_.head_width; ++d) {
          y[t][index(q + d)] += shares[u] * qkv[u][2][index(k + d)];
        }
      }
    }
  }
  static Row soft_max(Row x) {
    const double most = *std::max_element(x.begin(), x.end());
    double total = 0;
    for (double& value : x) {
      value = std::exp(value - most);
      total += value;
    }
    for (double& value : x) {
      value /= total;
    }
    return x;
  }
  [[nodiscard]] std::vector<Row> all_heads(const std::vector<std::array<Row, 3>>& qkv) const {
    std::vector<Row> y(qkv.size(), Row(index(s_.heads * s_.head_width), 0.0));
    const std::int64_t group = s_.heads / s_.key_heads;
    for (std::int64_t head = 0; head < s_.heads; ++head) {
      attend(qkv, head * s_.head_width, head / group * s_.head_width, y);
    }
    return y;
  }

  [[nodiscard]] std::vector<Row> gpt2_attention(const std::vector<Row>& x,
                                                const std::string& at) const {
    std::vector<std::array<Row, 3>> qkv;
    for (const Row& row : x) {
      const Row all = conv(layer_norm(row, at + ".ln_1"), at + ".attn.c_attn");
      const auto third = [&](std::int64_t i) {
        return Row(all.begin() + i * s_.width, all.begin() + (i + 1) * s_.width);
      };
      qkv.push_back({third(0), third(1), third(2)});
    }
    std::vector<Row> y = all_heads(qkv);
    for (Row& row : y) {
      row = conv(row, at + ".attn.c_proj");
    }
    return y;
  }

  /// x cos + rotate_half(x) sin, where rotate_half is (-x2, x1) of the halves x1 and x2.
  void rotate(Row& x, std::size_t position) const {
    const std::int64_t half = s_.head_width / 2;
    const Row before = x;
    for (std::size_t at = 0; at < x.size(); at += index(s_.head_width)) {
      for (std::int64_t d = 0; d < s_.head_width; ++d) {
        const double exponent =
            static_cast<double>(2 * (d % half)) / static_cast<double>(s_.head_width);
        const double angle = static_cast<double>(position) / std::pow(s_.rope_base, exponent);
        const double turned =
            d < half ? -before[at + index(d + half)] : before[at + index(d - half)];
        x[at + index(d)] = before[at + index(d)] * std::cos(angle) + turned * std::sin(angle);
      }
    }
  }
  [[nodiscard]] std::vector<Row> llama_attention(const std::vector<Row>& x,
                                                 const std::string& at) const {
    std::vector<std::array<Row, 3>> qkv;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row normed = rms_norm(x[t], at + ".input_layernorm.weight");
      Row q = linear(normed, at + ".self_attn.q_proj.weight");
      Row k = linear(normed, at + ".self_attn.k_proj.weight");
      rotate(q, t);
      rotate(k, t);
      qkv.push_back({q, k, linear(normed, at + ".self_attn.v_proj.weight")});
    }
    std::vector<Row> y = all_heads(qkv);
    for (Row& row : y) {
      row = linear(row, at + ".self_attn.o_proj.weight");
    }
    return y;
  }

  [[nodiscard]] Row gated(const Row& x, const Gated& names) const {
    Row h = linear(x, names.gate);
    const Row up = linear(x, names.up);
    for (std::size_t i = 0; i < h.size(); ++i) {
      h[i] = h[i] / (1 + std::exp(-h[i])) * up[i];
    }
    return linear(h, names.down);
  }
  /// The most likely experts, weighted by their probabilities, normalized to add up to 1.
  [[nodiscard]] Row mixture(const Row& x, const std::string& at) const {
    const Row shares = soft_max(linear(x, at + ".gate.weight"));
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
    order.resize(s_.experts_per_token);
    double total = 0;
    for (const std::size_t expert : order) {
      total += shares[expert];
    }
    Row y(x.size(), 0.0);
    for (const std::size_t expert : order) {
      const std::string name = at + ".experts." + std::to_string(expert);
      Row part = gated(x, {name + ".w1.weight", name + ".w3.weight", name + ".w2.weight"});
      for (double& value : part) {
        value *= shares[expert] / total;
      }
      y = sum(y, part);
    }
    return y;
  }

  const PlainTensors& tensors_;
  PlainSizes s_;
};

}  // namespace

std::vector<Row> plain_gpt2(const PlainTensors& tensors, const PlainSizes& sizes,
                            const std::vector<std::int32_t>& tokens) {
  return Forward(tensors, sizes).gpt2(tokens);
}

std::vector<Row> plain_llama(const PlainTensors& tensors, const PlainSizes& sizes,
                             const std::vector<std::int32_t>& tokens) {
  return Forward(tensors, sizes).llama(tokens);
}

}  // namespace trireme
