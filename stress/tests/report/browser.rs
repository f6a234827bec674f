//! The page in a real browser: nothing sticks out at the width of a phone, everything can be read in light and dark, nothing is loaded, and it
//! looks as it did.
//!
//! Needs Chromium or Chrome; says so where there is none. Screens are compared as coarse pictures, so that a letter's edge does not count; they are
//! made anew by `INSTA_UPDATE=always`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use walkfuzz_stress::report::{Run, html};

use crate::fixture::{cells, facts, results};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const PATIENCE: Duration = Duration::from_secs(180);
/// Side of the squares over which a screen's colours are averaged.
const SQUARE: u32 = 10;

struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Browser {
    /// The browser, if there is one that shows a page here at all.
    fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places =
            std::env::split_paths(&path).flat_map(|folder| BROWSERS.map(|name| folder.join(name)));
        let Some(program) = places.find(|program| program.is_file()) else {
            eprintln!("skip: no Chromium or Chrome on PATH (apt-get install chromium)");
            return None;
        };
        let browser = Self {
            program,
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(browser.file("hello.html"), "<p>hello").unwrap();
        match browser.run(&["--dump-dom"], "hello.html") {
            Ok(page) if page.contains("hello") => Some(browser),
            said => {
                eprintln!(
                    "skip: {} shows no page here: {said:?}",
                    browser.program.display()
                );
                None
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, options: &[&str], page: &str) -> Result<String, String> {
        let profile = format!("--user-data-dir={}", self.file("profile").display());
        let mut command = Command::new(&self.program);
        command
            // Its sandbox does not work as root; the page is our own.
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--virtual-time-budget=10000",
            ])
            .arg(profile)
            .args(options)
            .arg(format!("file://{}", self.file(page).display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(std::fs::File::create(self.file("out")).map_err(|error| error.to_string())?);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let begin = Instant::now();
        while child
            .try_wait()
            .map_err(|error| error.to_string())?
            .is_none()
        {
            if begin.elapsed() > PATIENCE {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .map_err(|error| error.to_string())?;
                return Err("the browser did not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::fs::read_to_string(self.file("out")).map_err(|error| error.to_string())
    }

    /// What the probe finds in a page of that width.
    fn probe(&self, page: &str, width: u32, dark: bool) -> Option<serde_json::Value> {
        let script = format!("<script>{}</script></body>", include_str!("probe.js"));
        std::fs::write(self.file("page.html"), page.replace("</body>", &script)).unwrap();
        self.frame(width, 900);
        let dom = self
            .run(&[scheme(dark), "--dump-dom"], "frame.html")
            .unwrap();
        let text = dom
            .split("<pre id=\"found\">")
            .nth(1)
            .unwrap()
            .split("</pre>")
            .next()
            .unwrap();
        let plain = text
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        (!plain.is_empty()).then(|| serde_json::from_str(&plain).unwrap())
    }

    /// A frame makes a page narrower than the browser's own window can be.
    fn frame(&self, width: u32, height: u32) {
        let frame = format!(
            "<!DOCTYPE html><body style=\"margin:0\"><iframe src=\"page.html\" width=\"{width}\" height=\"{height}\" \
             style=\"border:0;display:block\"></iframe><pre id=\"found\"></pre><script>addEventListener('message', \
             event => document.getElementById('found').textContent = event.data)</script>"
        );
        std::fs::write(self.file("frame.html"), frame).unwrap();
    }

    fn screenshot(&self, page: &str, width: u32, height: u32, dark: bool) -> Picture {
        std::fs::write(self.file("page.html"), page).unwrap();
        self.frame(width, height);
        let png = self.file("screen.png");
        let shot = format!("--screenshot={}", png.display());
        let window = format!("--window-size={},{}", width.max(500), height);
        self.run(&[scheme(dark), &shot, &window], "frame.html")
            .unwrap();
        Picture::read(&png).unwrap().cut(width, height)
    }
}

fn scheme(dark: bool) -> &'static str {
    if dark {
        "--blink-settings=preferredColorScheme=0"
    } else {
        "--blink-settings=preferredColorScheme=1"
    }
}

/// Without the rule that forbids scripts: the probe is one.
fn open(page: &str) -> String {
    let at = page
        .find("<meta http-equiv=\"Content-Security-Policy\"")
        .unwrap();
    let end = at + page[at..].find('>').unwrap() + 1;
    format!("{}{}", &page[..at], &page[end..])
}

fn page(count: usize) -> String {
    let plan = cells(count, 7);
    let mut results = results(&plan, 7);
    // A long word and a long line are what breaks narrow pages.
    results[0].cell.workload =
        "org.example.AVeryLongNameOfABenchmarkThatNobodyWouldEverType".into();
    results[1].reason = "x".repeat(300);
    let facts = facts(plan, 7);
    html(
        Run {
            facts: &facts,
            cells: &results,
        },
        "",
    )
}

#[test]
fn a_page_reads_well_on_phones_and_screens_in_light_and_dark() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = open(&page(60));
    for (width, dark) in [(360, true), (390, false), (1280, true), (1280, false)] {
        let found = browser.probe(&page, width, dark).unwrap();
        let number = |field: &str| found[field].as_f64().unwrap();
        assert_eq!(
            (number("width"), found["dark"].as_bool()),
            (f64::from(width), Some(dark))
        );
        assert!(
            number("overflow") <= 0.0 && number("overflowOpened") <= 0.0,
            "{width}: {found:#}"
        );
        assert_eq!(found["resources"], serde_json::json!([]));
        assert_eq!(
            (number("firstMap"), number("wrongMaps")),
            (0.0, 0.0),
            "{found:#}"
        );
        assert!(
            number("maps") > 20.0 && number("details") > 60.0 && number("tables") > 60.0,
            "{found:#}"
        );
        assert_eq!(
            found["faint"],
            serde_json::json!([]),
            "{width}, dark: {dark}"
        );
        assert!(number("texts") > 1_000.0, "{found:#}");
        assert_eq!(found["nameless"], serde_json::json!([]));
        assert_eq!(
            (found["headings"].as_bool(), found["language"].as_str()),
            (Some(true), Some("en"))
        );
        eprintln!(
            "{width} wide, dark {dark}: {} texts, contrast at least {:.2}",
            number("texts"),
            number("lowest")
        );
    }
}

#[test]
fn the_probe_sees_what_is_wrong() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let wrong = "<h1>a</h1><h3 style=\"color:#ccc\">faint</h3><p style=\"width:900px\">wide</p>\
                 <img src=\"elsewhere.png\"><table><tr><th>x</table><svg></svg></body>";
    let page = open(&page(12)).replace("</body>", wrong);
    let found = browser.probe(&page, 390, false).unwrap();
    assert!(found["overflow"].as_f64().unwrap() > 400.0, "{found:#}");
    assert_eq!(found["faint"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found["nameless"].as_array().unwrap().len(), 3, "{found:#}");
    assert_eq!(found["resources"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found["headings"], false);
}

#[test]
fn the_page_lets_no_script_run() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = page(12);
    assert!(browser.probe(&open(&page), 390, false).is_some());
    assert!(browser.probe(&page, 390, false).is_none());
}

#[test]
fn the_page_looks_as_it_did() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = page(60);
    let fonts = browser.probe(&open(&page), 390, false).unwrap()["fonts"]
        .as_str()
        .unwrap()
        .to_owned();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/screens");
    let update = std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always");
    let fonts_of = folder.join("fonts.txt");
    if update {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&fonts_of, &fonts).unwrap();
    } else if std::fs::read_to_string(&fonts_of).unwrap() != fonts {
        eprintln!("skip: other fonts than those of the pictures ({fonts})");
        return;
    }
    for (name, width, height, dark) in [
        ("phone-dark", 390, 1_600, true),
        ("phone-light", 390, 1_600, false),
        ("desktop-light", 1_280, 1_600, false),
    ] {
        let picture = browser.screenshot(&page, width, height, dark);
        let coarse = picture.coarse();
        let path = folder.join(format!("{name}.png"));
        if update {
            coarse.write(&path);
            picture.write(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png")));
            continue;
        }
        let expected = Picture::read(&path).unwrap();
        let (mean, far) = expected.differs(&coarse);
        eprintln!(
            "{name}: {mean:.2} of 255 on average, {:.2} % of the squares far off",
            100.0 * far
        );
        if mean > 4.0 || far > 0.02 {
            let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
            picture.write(&now);
            panic!(
                "{name} looks different ({mean:.2}, {far:.3}): see {}",
                now.display()
            );
        }
    }
}

/// Red, green and blue, row by row.
struct Picture {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

impl Picture {
    fn read(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let file = std::io::BufReader::new(std::fs::File::open(path)?);
        let mut decoder = png::Decoder::new(file);
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let mut bytes = vec![0; reader.output_buffer_size().ok_or("too large")?];
        let info = reader.next_frame(&mut bytes)?;
        bytes.truncate(info.buffer_size());
        let channels = info.color_type.samples();
        let bytes = bytes
            .chunks(channels)
            .flat_map(|pixel| pixel[..3].to_vec())
            .collect();
        Ok(Self {
            width: info.width,
            height: info.height,
            bytes,
        })
    }

    fn write(&self, path: &Path) {
        let file = std::fs::File::create(path).unwrap();
        let mut encoder = png::Encoder::new(file, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::High);
        encoder
            .write_header()
            .unwrap()
            .write_image_data(&self.bytes)
            .unwrap();
    }

    fn pixel(&self, x: u32, y: u32) -> &[u8] {
        let at = 3 * (y * self.width + x) as usize;
        &self.bytes[at..at + 3]
    }

    fn cut(&self, width: u32, height: u32) -> Self {
        assert!(
            self.width >= width && self.height >= height,
            "{} x {}",
            self.width,
            self.height
        );
        let pixels =
            (0..height).flat_map(|y| (0..width).flat_map(move |x| self.pixel(x, y).to_vec()));
        Self {
            width,
            height,
            bytes: pixels.collect(),
        }
    }

    /// Averages of squares.
    fn coarse(&self) -> Self {
        let (width, height) = (self.width / SQUARE, self.height / SQUARE);
        let mut bytes = Vec::new();
        for y in 0..height {
            for x in 0..width {
                for channel in 0..3 {
                    let square = (0..SQUARE * SQUARE).map(|n| {
                        u32::from(
                            self.pixel(x * SQUARE + n % SQUARE, y * SQUARE + n / SQUARE)[channel],
                        )
                    });
                    bytes.push((square.sum::<u32>() / (SQUARE * SQUARE)) as u8);
                }
            }
        }
        Self {
            width,
            height,
            bytes,
        }
    }

    /// The average distance of a colour, and the share of squares that are far off.
    fn differs(&self, other: &Self) -> (f64, f64) {
        assert_eq!((self.width, self.height), (other.width, other.height));
        let distances: Vec<f64> = self
            .bytes
            .chunks(3)
            .zip(other.bytes.chunks(3))
            .map(|(a, b)| {
                a.iter()
                    .zip(b)
                    .map(|(a, b)| f64::from(a.abs_diff(*b)))
                    .sum::<f64>()
                    / 3.0
            })
            .collect();
        let far = distances
            .iter()
            .filter(|&&distance| distance > 40.0)
            .count();
        let count = distances.len() as f64;
        (distances.iter().sum::<f64>() / count, far as f64 / count)
    }
}

#[test]
fn pictures_that_differ_are_told_apart() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = page(12);
    let picture = |page: &str| browser.screenshot(page, 390, 800, false).coarse();
    let (same, _) = picture(&page).differs(&picture(&page));
    assert!(same < 0.5, "{same}");
    let (mean, far) =
        picture(&page).differs(&picture(&page.replace("<header>", "<header hidden>")));
    assert!(mean > 4.0 || far > 0.02, "{mean}, {far}");
}
