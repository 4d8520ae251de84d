// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN's graph API that attention needs: tensors of four dimensions, operations between them, and plans
// that run them. Internal to kernels/cuda.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace meshwright::kernels::cuda {

// cuDNN refuses a graph: what it was asked for, and what it says.
class GraphRefusal : public std::runtime_error {
 public:
  explicit GraphRefusal(const std::string& what) : std::runtime_error(what) {}
};

// What cuDNN keeps behind a pointer. An attribute is one value or several of one type.
class GraphDescriptor {
 public:
  explicit GraphDescriptor(cudnnBackendDescriptorType_t type);

  GraphDescriptor& set_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                           const void* values);
  template <class Value>
  GraphDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    return set_all(name, type, 1, &value);
  }
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const GraphDescriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  GraphDescriptor& finish();

  // Writes at most `most` of an attribute's values; how many there are.
  [[nodiscard]] std::size_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t most,
                                 void* values) const;
  [[nodiscard]] std::int64_t integer(cudnnBackendAttributeName_t name) const;
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return held_.get(); }

 private:
  struct Destroyer {
    void operator()(cudnnBackendDescriptor_t descriptor) const { (void)cudnnBackendDestroyDescriptor(descriptor); }
  };
  std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, Destroyer> held_;
};

using Extents = std::array<std::int64_t, 4>;
[[nodiscard]] Extents row_major(const Extents& sizes);

// `number`: by which a tensor is known where a plan runs.
struct GraphTensor {
  std::int64_t number = 0;
  Extents sizes = {};
};

// Operations, in an order in which they can be done.
class OperationGraph {
 public:
  // The numbers that a caller gives are below this one.
  static constexpr std::int64_t kOwnNumbers = 1000;

  // In device memory, from a multiple of 16 bytes on.
  GraphTensor array(std::int64_t number, cudnnDataType_t type, const Extents& sizes, const Extents& strides);
  // One number, which is read from the host when a plan runs.
  GraphTensor value(std::int64_t number, cudnnDataType_t type);
  // What one operation leaves to the next.
  GraphTensor between(cudnnDataType_t type, const Extents& sizes, const Extents& strides);
  GraphTensor between(cudnnDataType_t type, const Extents& sizes) { return between(type, sizes, row_major(sizes)); }

  // Sums are float. Products are of the last two dimensions; the others are batches, of which b may have fewer.
  void product(const GraphTensor& a, const GraphTensor& b, const GraphTensor& to);
  // to = mode(x), mode(x, b) or mode(x, b, t), computed in the type `in`.
  void each(cudnnPointwiseMode_t mode, std::initializer_list<GraphTensor> inputs, const GraphTensor& to,
            cudnnDataType_t in = CUDNN_DATA_FLOAT);
  // The same, to a float where x is.
  [[nodiscard]] GraphTensor each(cudnnPointwiseMode_t mode, std::initializer_list<GraphTensor> inputs) {
    const GraphTensor to = between(CUDNN_DATA_FLOAT, inputs.begin()->sizes);
    each(mode, inputs, to);
    return to;
  }
  // Integers: how far along dimension `axis` an element of `like` lies.
  [[nodiscard]] GraphTensor positions(const GraphTensor& like, std::int64_t axis);
  // Over the dimensions of which `to` has fewer.
  void reduce(cudnnReduceTensorOp_t operation, const GraphTensor& from, const GraphTensor& to);
  // The same elements under other sizes and strides.
  void view(const GraphTensor& from, const GraphTensor& to);

 private:
  friend struct GraphPlan;
  GraphTensor add(std::int64_t number, cudnnDataType_t type, const Extents& sizes, const Extents& strides,
                  std::optional<cudnnBackendAttributeName_t> kind);
  [[nodiscard]] const GraphDescriptor& of(const GraphTensor& tensor) const;

  std::vector<std::pair<std::int64_t, GraphDescriptor>> tensors_;
  std::vector<GraphDescriptor> kinds_, operations_;  // an operation refers to its kind
  std::int64_t next_ = kOwnNumbers;
};

// How a graph runs.
struct GraphPlan {
  OperationGraph operations;
  std::vector<GraphDescriptor> descriptors;  // the last is the plan
  std::size_t bytes = 0;                     // of workspace
  std::int64_t engine = 0;                   // cuDNN's number of what runs it

  // The first of cuDNN's proposals that has the same result every time and can be had. Throws GraphRefusal.
  [[nodiscard]] static GraphPlan of(cudnnHandle_t library, OperationGraph operations);

  struct Operand {
    std::int64_t number;
    const void* data;  // of a value: on the host
  };
  // On the library's stream. REQUIRES: an operand for each array and value of the graph.
  void run(cudnnHandle_t library, const std::vector<Operand>& operands, void* workspace) const;
};

}  // namespace meshwright::kernels::cuda
