// SPDX-License-Identifier: Apache-2.0
// Recording by CUPTI's activity records. Each call of CUDA that is made in a range leaves, beside the record of what
// it launched, one that ties the call's number to that of the range (external correlation); CUPTI writes the latter
// only where calls are recorded too: those of the runtime, and those of the driver, which libraries make.
//
// Records of a kind only grow from version to version of CUPTI, at their end: the oldest structs with what is wanted
// here read those of all versions from CUDA 12.0 on.
#include <cuda_runtime_api.h>
#include <cupti.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/runtime/activity.h"
#include "kernels/cuda/runtime/loaded_library.h"
#include "kernels/cuda/runtime/open_ranges.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr std::size_t kBuffer = std::size_t{8} << 20, kAlignment = 8;  // bytes; CUPTI wants the latter
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
};
constexpr CUpti_ExternalCorrelationKind kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

struct Cupti {
  decltype(&::cuptiActivityDisable) disable;
  decltype(&::cuptiActivityEnable) enable;
  decltype(&::cuptiActivityFlushAll) flush_all;
  decltype(&::cuptiActivityGetNextRecord) next_record;
  decltype(&::cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&::cuptiActivityPopExternalCorrelationId) pop;
  decltype(&::cuptiActivityPushExternalCorrelationId) push;
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&::cuptiGetResultString) words_of;
  decltype(&::cuptiGetVersion) version;
};

Cupti all_of_it() {
  const LoadedLibrary library("libcupti.so." + std::to_string(CUDART_VERSION / 1000), MESHWRIGHT_CUPTI_LIBRARIES);
  Cupti all{};
  library.find("cuptiActivityDisable", all.disable);
  library.find("cuptiActivityEnable", all.enable);
  library.find("cuptiActivityFlushAll", all.flush_all);
  library.find("cuptiActivityGetNextRecord", all.next_record);
  library.find("cuptiActivityGetNumDroppedRecords", all.dropped_records);
  library.find("cuptiActivityPopExternalCorrelationId", all.pop);
  library.find("cuptiActivityPushExternalCorrelationId", all.push);
  library.find("cuptiActivityRegisterCallbacks", all.register_callbacks);
  library.find("cuptiGetResultString", all.words_of);
  library.find("cuptiGetVersion", all.version);
  return all;
}

const Cupti& cupti() {
  static const Cupti all = all_of_it();
  return all;
}

[[noreturn]] void fail(CUptiResult result, const char* doing) {
  const std::string failed = std::string("CUPTI: ") + doing + " failed: ";
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES || result == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
    throw Failure(failed +
                  "the driver lets administrators alone profile (NVreg_RestrictProfilingToAdminUsers=1); run this as "
                  "one, or have it allowed for all");
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || result == CUPTI_ERROR_HARDWARE_BUSY)
    throw Failure(failed + "another profiler watches this process; run it without");
  const char* words = nullptr;
  (void)cupti().words_of(result, &words);
  throw Failure(failed + (words == nullptr ? "" : words) + " (" + std::to_string(result) + ")");
}
void check(CUptiResult result, const char* doing) {
  if (result != CUPTI_SUCCESS) fail(result, doing);
}

// What is known of the recording that goes on. CUPTI hands over buffers from threads of its own.
class Collected {
 public:
  void clear() {
    const std::lock_guard lock(mutex_);
    recording_ = {};
    name_numbers_.clear();
    calls_.clear();
    range_of_call_.clear();
    broken_ = false;
  }

  void add(std::uint8_t* buffer, std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      CUpti_Activity* record = nullptr;
      CUptiResult result = CUPTI_SUCCESS;
      while (size > 0 && (result = cupti().next_record(buffer, size, &record)) == CUPTI_SUCCESS) keep(*record);
      if (size > 0 && result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++recording_.lost;  // one that is incomplete
      std::size_t dropped = 0;
      if (cupti().dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS)
        recording_.lost += static_cast<std::int64_t>(dropped);
    } catch (...) {
      broken_ = true;  // CUPTI must not see it
    }
  }

  Recording take(std::vector<Recording::Range> ranges) {
    const std::lock_guard lock(mutex_);
    if (broken_) throw Failure("there is no host memory for what was recorded; record fewer steps");
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const auto range = range_of_call_.find(calls_[i]);
      if (range != range_of_call_.end() && range->second < ranges.size())
        recording_.activities[i].range = static_cast<std::size_t>(range->second);
    }
    recording_.ranges = std::move(ranges);
    return std::exchange(recording_, {});
  }

 private:
  void keep(const CUpti_Activity& record) {
    using Kind = Activity::Kind;
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel8&>(record);
        return keep(Kind::Kernel, kernel, 0, kernel.name);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(record);
        return keep(Kind::Copy, copy, copy.bytes, "copy");
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
        const bool apart = copy.srcDeviceId != copy.dstDeviceId;
        return keep(apart ? Kind::PeerCopy : Kind::Copy, copy, copy.bytes, "copy");
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
        return keep(Kind::Clear, set, set.bytes, "clear");
      }
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& tie = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
        if (tie.externalKind == kOurs) range_of_call_[tie.correlationId] = tie.externalId;
        return;
      }
      default:
        return;
    }
  }

  template <class Record>
  void keep(Activity::Kind kind, const Record& record, std::uint64_t bytes, const char* name) {
    if (record.start == 0 || record.end < record.start) {
      ++recording_.lost;
      return;
    }
    recording_.activities.push_back({kind, static_cast<int>(record.deviceId), record.streamId,
                                     static_cast<std::int64_t>(record.start), static_cast<std::int64_t>(record.end),
                                     static_cast<std::int64_t>(bytes), number_of(name == nullptr ? "" : name)});
    calls_.push_back(record.correlationId);
  }

  std::size_t number_of(const char* name) {
    const auto [found, is_new] = name_numbers_.try_emplace(name, recording_.names.size());
    if (is_new) recording_.names.emplace_back(name);
    return found->second;
  }

  std::mutex mutex_;
  Recording recording_;
  std::unordered_map<std::string, std::size_t> name_numbers_;
  std::vector<std::uint32_t> calls_;  // that launched each activity
  std::unordered_map<std::uint32_t, std::uint64_t> range_of_call_;
  bool broken_ = false;
};

// Never destroyed: CUPTI may hand over buffers while the process ends.
Collected& collected() {
  static Collected& all = *new Collected;
  return all;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBuffer));
  *size = *buffer == nullptr ? 0 : kBuffer;  // records for which there is no buffer are counted as dropped
  *max_records = 0;
}
void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t filled) {
  collected().add(buffer, filled);
  std::free(buffer);
}

// One that is not enabled refuses, which is no failure.
void disable_all() {
  for (const CUpti_ActivityKind kind : kKinds) (void)cupti().disable(kind);
}

}  // namespace

bool can_record() { return true; }

std::string describe_recorder() {
  std::uint32_t version = 0;
  check(cupti().version(&version), "asking for its version");
  return "CUPTI " + std::to_string(version);
}

void start_recording() {
  static const bool once = (check(cupti().register_callbacks(give_buffer, take_buffer), "registering buffers"), true);
  static_cast<void>(once);
  disable_all();
  (void)cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);  // what an earlier recording left
  collected().clear();
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult result = cupti().enable(kind);
    if (result == CUPTI_SUCCESS) continue;
    disable_all();
    fail(result, "recording what the GPUs do");
  }
  open_ranges::start_numbering();
}

Recording stop_recording() {
  std::vector<Recording::Range> ranges = open_ranges::stop_numbering();
  const CUptiResult flushed = cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  disable_all();
  check(flushed, "fetching what was recorded");
  return collected().take(std::move(ranges));
}

// Nobody has loaded CUPTI where nobody records.
void note_begin_of_range(const char* name) {
  if (const std::optional<std::size_t> number = open_ranges::open(name)) (void)cupti().push(kOurs, *number);
}
void note_end_of_range() {
  if (open_ranges::close()) (void)cupti().pop(kOurs, nullptr);
}

}  // namespace meshwright::kernels::cuda
