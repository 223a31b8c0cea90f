// All that helps to read an answer, wherever one stands: previews, copying, reading aloud.

import { allowCopying } from "./copying.js";
import { showDoubts, showPreviews } from "./previews.js";
import { allowSpeaking } from "./speaking.js";

/** `say(words)` tells a screen reader. */
export function helpReading(say) {
  showPreviews();
  showDoubts();
  allowCopying(say);
  allowSpeaking();
}
