/* The page starts here: stores, magics, directives, then the router. */
import Alpine from "./vendor/alpinejs-csp-3.17.4.esm.min.js";
import { chart } from "./charts/chart.js";
import { dialogs } from "./lib/dialogs.js";
import * as format from "./lib/format.js";
import { keys } from "./lib/keys.js";
import { live } from "./lib/live.js";
import { link, router } from "./lib/router.js";
import { session } from "./lib/session.js";
import { shell } from "./lib/shell.js";
import { timeDirective } from "./lib/times.js";
import { toasts } from "./lib/toasts.js";
import * as words from "./lib/words.js";

Alpine.store("session", session);
Alpine.store("live", live);
Alpine.store("toasts", toasts);
Alpine.store("ask", dialogs.ask);
Alpine.store("route", router.route);
Alpine.magic("f", () => format);
Alpine.magic("w", () => words);
Alpine.magic("link", () => link);
Alpine.directive("chart", chart);
Alpine.directive("time", timeDirective);
Alpine.data("shell", shell);

const stores = { session: Alpine.store("session"), live: Alpine.store("live"), toasts: Alpine.store("toasts") };
session.attach(stores.session);
live.attach(stores.live);
toasts.attach(stores.toasts);
dialogs.attach(Alpine.store("ask"));
router.attach(Alpine, Alpine.store("route"));

Alpine.start();
keys.start();
router.warm();
await stores.session.look();
router.start();
