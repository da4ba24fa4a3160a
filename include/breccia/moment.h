#pragma once

namespace breccia {

/// Who is told of the moment at which a batch happens (WriteOptions::moment): a layer above a store
/// that answers by itself, and wants its answers to change together with the store's.
///
/// Between Begin() and End() no other batch happens, and none is answered by the store: who has
/// seen something of this batch there has seen it behind End(true), and who has not, before
/// Begin(). Neither may call the store, or want memory.
class Moment {
 public:
  virtual ~Moment() = default;

  virtual void Begin() noexcept = 0;
  /// Behind Begin(), once. `happens`: false, if the batch fails.
  virtual void End(bool happens) noexcept = 0;
};

}  // namespace breccia
