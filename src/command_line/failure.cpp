#include "command_line/failure.h"

#include <exception>
#include <filesystem>
#include <new>

#include <fmt/format.h>

#include "base/path_error.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int code_of_kind(ErrorKind kind) {
  return kind == ErrorKind::Usage || kind == ErrorKind::Input ? kUsage : kFailed;
}

}  // namespace

Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.what(), code_of_kind(error.kind())};
  } catch (const Bug& bug) {
    return {fmt::format("internal error, please report it: {}", bug.what()), kFailed};
  } catch (const std::filesystem::filesystem_error& error) {
    return {fmt::format("cannot access '{}': {}", error.path1().string(), error.code().message()),
            code_of_kind(kind_of_path_error(error.code().value()))};
  } catch (const std::bad_alloc&) {
    return {"out of memory; use fewer ranks or blocks", kFailed};
  } catch (const std::exception& error) {
    return {error.what(), kFailed};
  }
}

}  // namespace trireme::cli
