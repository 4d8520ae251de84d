// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/device_threads.h"

#include <exception>
#include <mutex>
#include <thread>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// The first failure of any thread, with its device.
class FirstError {
 public:
  // REQUIRES: called inside a catch block.
  void keep(DeviceId device) {
    const std::lock_guard lock(mutex_);
    // Later errors are often consequences of the first.
    if (error_) return;
    error_ = std::current_exception();
    device_ = device;
  }
  // The message of what rethrow() throws.
  [[nodiscard]] std::string message() const {
    try {
      rethrow();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  explicit operator bool() const { return error_ != nullptr; }
  void rethrow() const {
    if (!error_) return;
    try {
      std::rethrow_exception(error_);
    } catch (const InputError&) {
      // Bad input is the same on every device: no device is named.
      throw;
    } catch (const InternalError& error) {
      // Keeps the kind of the error, which decides the program's exit code.
      throw InternalError(fmt::format("device {}: {}", device_.value, error.what()));
    } catch (const std::exception& error) {
      throw SystemError(fmt::format("device {} failed: {}", device_.value, error.what()));
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  DeviceId device_{0};
};

}  // namespace

void run_on_threads(const std::vector<DeviceId>& devices, const std::function<void(DeviceId)>& work, Abort& abort,
                    Peers* peers, const std::function<void()>& on_failure, const std::function<std::string()>& where) {
  FirstError error;
  const auto fail = [&](DeviceId device) {
    error.keep(device);
    abort.raise();
    if (peers != nullptr) peers->fail(error.message());
  };
  std::vector<std::thread> threads;
  for (const DeviceId device : devices) {
    try {
      threads.emplace_back([&, device] {
        try {
          work(device);
        } catch (const Aborted&) {  // another thread's error
        } catch (...) {
          fail(device);
        }
      });
    } catch (...) {  // no thread to be had
      // The threads that have started may wait for this device: abort ends their waits.
      fail(device);
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  // All threads have ended: on_failure may use what they shared.
  const bool peer_failed = peers != nullptr && peers->failure();
  const std::string was_at = peer_failed ? where() : "";
  if (error || peer_failed) on_failure();
  error.rethrow();
  if (peer_failed) throw_failure_of_peer(*peers, was_at);
}

void throw_failure_of_peer(const Peers& peers, const std::string& where) {
  const auto failure = peers.failure();
  MW_CHECK(failure, "a run was aborted, but no process has failed");
  if (failure->lost)
    throw PeerLost(fmt::format("process {} of {}: process {} was lost: {}{}{}.", peers.rank(), peers.size(),
                               failure->rank, failure->why, where.empty() ? "" : "; here ", where));
  throw SystemError(fmt::format("process {}: {}", failure->rank, failure->why));
}

}  // namespace meshwright
