// Memory that forked processes share. As safe for threads and processes as the value in it.
#pragma once

#include <new>
#include <stdexcept>

#include <sys/mman.h>

namespace trireme::test {

/// A T that the processes forked while it exists share with this one.
template <class T>
class Shared {
 public:
  Shared() : value_(new (mapped()) T()) {}
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  static void* mapped() {
    void* const memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error("no memory to share between processes");
    }
    return memory;
  }

  T* value_;
};

}  // namespace trireme::test
