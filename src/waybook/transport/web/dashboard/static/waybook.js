// The little that pages do by themselves; without it they work all the same.
"use strict";
