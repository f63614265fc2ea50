#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <utility>

namespace lagom::tensor {

/// Carries any value from an autograd function's forward to its backward, where only IValues go.
template <typename T>
class KeptValue : public torch::CustomClassHolder {
 public:
  static c10::IValue keep(T value) {
    return c10::IValue::make_capsule(c10::make_intrusive<KeptValue>(std::move(value)));
  }
  static const T& of(const c10::IValue& kept) {
    return static_cast<const KeptValue&>(*kept.toCapsule()).value_;
  }

  explicit KeptValue(T value) : value_(std::move(value)) {}

 private:
  T value_;
};

}  // namespace lagom::tensor
