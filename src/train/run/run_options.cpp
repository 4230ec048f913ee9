#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "train/run/rank_data.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/load_model.h"
#include "trireme/message.h"
#include "trireme/shell_word.h"
#include "trireme/sync.h"
#include "trireme/train.h"

namespace trireme {
namespace {

/// Why the run cannot resume with these settings.
std::vector<std::string> resume_problems(const RunOptions& options) {
  try {
    (void)resumed_settings(parsed("--resume", options.resume, load_settings), options.settings,
                           setting_names());
    return {};
  } catch (const Error& error) {
    return {error.what()};
  }
}

/// The options of servers that are given.
std::vector<std::string> server_options(const RunServers& given) {
  const RunServers defaults;
  std::vector<std::string> names;
  const auto add = [&](bool is_given, const char* name) {
    if (is_given) {
      names.emplace_back(name);
    }
  };
  add(!given.address.empty(), "--ps");
  add(given.count != defaults.count, "--ps-servers");
  add(given.replicas != defaults.replicas, "--ps-replicas");
  add(given.lease != defaults.lease, "--ps-lease");
  add(given.encrypt, "--ps-encrypt");
  add(!given.etcd_tls.ca.empty(), "--etcd-ca");
  add(!given.etcd_tls.certificate.empty(), "--etcd-cert");
  add(!given.etcd_tls.key.empty(), "--etcd-key");
  return names;
}

/// Why the workers cannot synchronize like this.
std::vector<std::string> find_sync_problems(const RunOptions& options) {
  const TrainSettings& s = options.settings;
  const SyncSpec sync = parse_sync(s.sync);
  std::vector<std::string> found = problems(sync, options.plan);
  if (const std::vector<std::string> given = server_options(options.servers);
      !uses_server(sync) && !given.empty()) {
    found.push_back(fmt::format("{} requires --sync ps:…, and --sync is {}; leave it out",
                                list_words(given, "and"), s.sync));
  }
  if (!found.empty() || !has_replicas(sync)) {
    return found;
  }
  const int workers = options.plan.mesh.size("data");
  if (s.batch % workers != 0) {
    found.push_back(
        fmt::format("--sync {}: each of {} workers gets an equal share of the batch, "
                    "and --batch is {}; use a multiple of {}",
                    s.sync, workers, s.batch, workers));
  }
  if (updates_elsewhere(sync) && s.dtype != "f32") {
    found.push_back(fmt::format("--sync {} exchanges f32 gradients; use --dtype f32", s.sync));
  }
  const Optimizer optimizer = parse_optimizer(s.optimizer);
  if (uses_server(sync) &&
      (std::holds_alternative<Lion>(optimizer) || std::holds_alternative<Muon>(optimizer))) {
    found.push_back(
        fmt::format("--sync {}: parameter servers apply adamw, sgd, momentum or adagrad, not {}; "
                    "use another --optimizer, or --sync allreduce",
                    s.sync, name_of(optimizer)));
  }
  if (uses_server(sync) && options.servers.address.empty()) {
    const int servers = options.servers.count > 0 ? options.servers.count : workers;
    if (options.servers.count < 0 || options.servers.replicas < 1 ||
        options.servers.replicas > servers) {
      found.push_back(
          fmt::format("--ps-replicas is {} and --ps-servers {}; use 1 replica or more, "
                      "and at most as many as servers",
                      options.servers.replicas, servers));
    }
  }
  if (options.servers.address.empty() && options.servers.encrypt) {
    found.emplace_back("--ps-encrypt is for servers that are running: give --ps HOST:PORT, too");
  }
  const bool has_f32 = s.dtype == "f32" || (s.dtype != "f64" && s.master == "f32");
  if (!has_f32) {
    found.push_back(
        fmt::format("--sync {} exchanges f32 models; use --dtype f32, or bf16 or f16 "
                    "with --master f32",
                    s.sync));
  }
  return found;
}

}  // namespace

Plan load_plan(const std::string& run_folder) {
  const std::string path = run_folder + "/plan.json";
  return std::filesystem::exists(path) ? parsed(path, read_file(path), parse_plan) : Plan{};
}

std::vector<std::string> problems(const RunOptions& o) {
  namespace fs = std::filesystem;
  std::vector<std::string> found = problems(o.settings);
  if (!found.empty()) {
    return found;
  }
  found = find_sync_problems(o);
  const auto require = [&](bool holds, const std::string& otherwise) {
    if (!holds) {
      found.push_back(otherwise);
    }
  };
  const auto add = [&](const std::vector<std::string>& more) {
    found.insert(found.end(), more.begin(), more.end());
  };
  require(o.settings.steps > 0 || !o.resume.empty() || !o.export_folder.empty() ||
              !o.settings.weights.empty() || is_model_path(o.settings.model),
          "--steps is 0; it must be 1 or more, unless a model is exported or comes from a file");
  require(o.run_folder.empty() || !fs::exists(o.run_folder + "/settings.json"),
          fmt::format("--run-folder: '{}' already holds a run; resume it with --resume {}, or "
                      "choose another folder",
                      o.run_folder, shell_word(o.run_folder)));
  require(o.run_folder.empty() || !fs::exists(o.run_folder) || fs::is_directory(o.run_folder),
          fmt::format("--run-folder: '{}' is not a folder", o.run_folder));
  if (!o.resume.empty()) {
    add(resume_problems(o));
  }
  if (train::has_rank_files(o.settings)) {
    add(train::rank_files_problems(o.settings, o.plan));
  }
  require(static_cast<bool>(o.make_device), "RunOptions::make_device is empty; use cpu_devices()");
  return found;
}

std::string_view to_text(RankKind kind) {
  static constexpr auto kNames = enum_names<RankKind>("processes", "threads");
  return kNames[kind];
}

}  // namespace trireme
