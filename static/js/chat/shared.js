// A shared conversation: reasons of doubts and code to copy; its sources open as pages.

import { allowCopying } from "./copying.js";
import { showDoubts } from "./previews.js";

showDoubts();
allowCopying(() => {});
