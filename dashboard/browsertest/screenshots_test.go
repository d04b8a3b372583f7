package browsertest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/internal/serve"
)

// TestScreenshots takes the pictures of the pages in docs/, where CAUDAL_SCREENSHOTS
// names a folder for them.
func TestScreenshots(t *testing.T) {
	into := os.Getenv("CAUDAL_SCREENSHOTS")
	if into == "" {
		t.Skip("make screenshots takes the pictures of docs/")
	}
	c := start(t, serve.Config{Store: redistest.Start(t).URL(), StoreTimeout: time.Second})
	c.load()
	pages := map[string]*page{}
	for name, size := range map[string][2]int64{"light": {1240, 1180}, "dark": {1240, 1180}, "phone": {390, 1180}} {
		p := open(t, c, size[0], size[1])
		theme := "light"
		if name == "dark" {
			theme = "dark"
		}
		p.prefers(theme)
		pages[name] = p
	}
	time.Sleep(70 * time.Second) // until the lines are full
	for name, p := range pages {
		p.do(chromedp.SetValue("#key", "api_key=greedy"), chromedp.Click("#look button"))
		p.wait("the key's counter", `document.querySelector("#found .counter")`)
		eval[bool](p, `document.activeElement.blur(), scrollTo(0, 0), true`)
		picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(into, "dashboard-"+name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
