// A page in Debian's Chromium, without a screen.
#pragma once

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "cli/program.h"
#include "temporary_folder.h"

namespace trireme {

inline bool has_browser() {
  return std::system("command -v chromium >/dev/null 2>&1") == 0;  // NOLINT(concurrency-mt-unsafe)
}

struct BrowserOptions {
  int width = 1280;
  bool dark = false;
  int milliseconds = 0;  ///< of virtual time that the page's timers may use
};

/// What the browser made of the page.
struct Opened {
  std::string document{};  ///< after scripts have run
  std::string log{};       ///< of the browser; console messages have the word CONSOLE

  [[nodiscard]] bool has_console_messages() const {
    return log.find(":CONSOLE") != std::string::npos;
  }
};

inline Opened open_page(const std::string& address, const BrowserOptions& options = {}) {
  const TemporaryFolder folder;
  const std::string command = fmt::format(
      "timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
      "--disable-background-networking --disable-component-update --disable-sync "
      "--disable-dev-shm-usage --user-data-dir={0}/profile --enable-logging=stderr "
      "--window-size={1},900 {2} {3} --dump-dom '{4}' >{0}/out 2>{0}/err",
      folder.path(), options.width, options.dark ? "--blink-settings=preferredColorScheme=0" : "",
      options.milliseconds > 0 ? fmt::format("--virtual-time-budget={}", options.milliseconds) : "",
      address);
  (void)!std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  return {.document = read_text(folder / "out"), .log = read_text(folder / "err")};
}

}  // namespace trireme
