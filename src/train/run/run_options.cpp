#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/load_model.h"
#include "trireme/train.h"

namespace trireme {
namespace {

/// Why the run cannot resume with these settings; "" if it can.
std::string find_resume_problem(const RunOptions& options) {
  try {
    (void)resumed_settings(load_settings(options.resume), options.settings, setting_names());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::vector<std::string> problems(const RunOptions& o) {
  namespace fs = std::filesystem;
  std::vector<std::string> found = problems(o.settings);
  const auto require = [&](bool holds, const std::string& otherwise) {
    if (!holds) {
      found.push_back(otherwise);
    }
  };
  require(o.settings.steps > 0 || !o.resume.empty() || !o.export_folder.empty() ||
              !o.settings.weights.empty() || is_model_path(o.settings.model),
          "--steps is 0; it must be 1 or more, unless a model is exported or comes from a file");
  require(o.save_every >= 0,
          fmt::format("--save-every is {}; it must be 0 (at the end only) or more", o.save_every));
  require(o.validate_every >= 0,
          fmt::format("--validate-every is {}; it must be 0 (at the end only) or more",
                      o.validate_every));
  require(o.run_folder.empty() || !fs::exists(o.run_folder + "/settings.json"),
          fmt::format("--run-folder: '{0}' already holds a run; resume it with --resume {0}, or "
                      "choose another folder",
                      o.run_folder));
  require(o.run_folder.empty() || !fs::exists(o.run_folder) || fs::is_directory(o.run_folder),
          fmt::format("--run-folder: '{}' is not a folder", o.run_folder));
  require(o.plan.mesh.devices() == 1 || o.export_folder.empty(),
          "--export needs one device: let this run finish, then --resume it with --export alone");
  if (!o.resume.empty()) {
    const std::string problem = find_resume_problem(o);
    require(problem.empty(), problem);
  }
  require(static_cast<bool>(o.make_device), "RunOptions::make_device is empty; use cpu_devices()");
  return found;
}

}  // namespace trireme
