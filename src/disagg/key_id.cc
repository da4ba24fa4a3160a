#include "disagg/key_id.h"

#include "base/secret.h"

namespace breccia::disagg {

KeySeeds KeySeeds::draw() {
  using base::draw_secret_word;
  return {.hash = {draw_secret_word(), draw_secret_word() | 1},
          .proof = {draw_secret_word(), draw_secret_word() | 1}};
}

}  // namespace breccia::disagg
