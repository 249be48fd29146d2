/* Entry point: registers Alpine stores, magics and directives, then starts the router. */
import Alpine from "./vendor/alpinejs-csp-3.17.4.esm.min.js";
import { chart } from "./charts/chart.js";
import { dialogs } from "./lib/dialogs.js";
import * as format from "./lib/format.js";
import * as labels from "./lib/labels.js";
import { live } from "./lib/live.js";
import { link, router } from "./lib/router.js";
import { session } from "./lib/session.js";
import { shell } from "./lib/shell.js";
import { startShortcuts } from "./lib/shortcuts.js";
import { timeDirective } from "./lib/time.js";
import { toasts } from "./lib/toasts.js";

Alpine.store("session", session);
Alpine.store("live", live);
Alpine.store("toasts", toasts);
Alpine.store("confirmation", dialogs.confirmation);
Alpine.store("route", router.route);
Alpine.magic("format", () => format);
Alpine.magic("labels", () => labels);
Alpine.magic("link", () => link);
Alpine.directive("chart", chart);
Alpine.directive("time", timeDirective);
Alpine.data("shell", shell);

const stores = { session: Alpine.store("session"), live: Alpine.store("live"), toasts: Alpine.store("toasts") };
session.attach(stores.session);
live.attach(stores.live);
toasts.attach(stores.toasts);
dialogs.attach(Alpine.store("confirmation"));
router.attach(Alpine, Alpine.store("route"));

Alpine.start();
startShortcuts();
router.prefetch();
await stores.session.load();
router.start();
